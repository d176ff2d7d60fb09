-- Puts the followers of some keys that were due back behind the one that failed ($3, its number). One range of
-- delivery_key per key: as a plain join, a planner that knows nothing of the table yet would walk all of it.
update postroom.delivery d set state = 'blocked', due = null, since = $4
from unnest($2::text[], $3::int8[]) as f(key, seq) cross join lateral (
  select b.handle from postroom.delivery b
  where b.route = $1 and b.key = f.key and b.blocks and b.state = 'due' and b.seq > f.seq offset 0) n
where d.handle = n.handle
