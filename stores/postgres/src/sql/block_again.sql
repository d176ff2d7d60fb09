-- Puts the followers of some keys that were due back behind the one that failed ($3, its number). Served by delivery_key.
update postroom.delivery d set state = 'blocked', due = null, since = $4
from unnest($2::text[], $3::int8[]) as f(key, seq)
where d.route = $1 and d.key = f.key and d.blocks and d.state = 'due' and d.seq > f.seq
