-- Makes the next followers of some keys due: up to 100 blocked ones each, in order, that stand before every due, retrying or
-- held one of the key. Nothing happens while one of those stands in front. Served by delivery_key.
update postroom.delivery d set state = 'due', due = $3, since = $3
from unnest($2::text[]) as k(key) cross join lateral (
  select b.handle from postroom.delivery b
  where b.route = $1 and b.key = k.key and b.blocks and b.state = 'blocked'
    and b.seq < coalesce(
      (select min(f.seq) from postroom.delivery f
       where f.route = $1 and f.key = k.key and f.blocks and f.state in ('due', 'retrying', 'dead')),
      9223372036854775807)
  order by b.seq limit 100) n
where d.handle = n.handle
