-- Makes the next followers of a key due: up to 100 blocked ones, in order, that stand before every due, retrying or held
-- one of the key. Nothing happens while one of those stands in front. Served by postroom_delivery_key.
update postroom_delivery set state = 'due', due = ?3, since = ?3
where handle in (
  select handle from postroom_delivery
  where route = ?1 and key = ?2 and blocks = 1 and state = 'blocked'
    and seq < coalesce(
      (select min(seq) from postroom_delivery
       where route = ?1 and key = ?2 and blocks = 1 and state in ('due', 'retrying', 'dead')),
      9223372036854775807)
  order by seq limit 100
)
