-- Makes dead letters due again ($1, handles), one every $3 microseconds after the first $4. A held one goes on holding its
-- key until it is done.
update postroom.delivery d set
  state = 'due', due = $2::timestamptz + ($4::int8 + w.place - 1) * $3::float8 * interval '1 microsecond', attempts = 0,
  round = d.round + 1, since = $2
from unnest($1::int8[]) with ordinality as w(handle, place)
where d.handle = w.handle and d.state = 'dead'
