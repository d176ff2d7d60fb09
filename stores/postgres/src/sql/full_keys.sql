-- Which of these keys ($2) have more events waiting than may ($3). Served by delivery_key.
select k.key
from unnest($2::text[]) as k(key)
where (select count(*) from (
  select 1 from postroom.delivery d where d.route = $1 and d.key = k.key and d.blocks and d.state = 'blocked' limit $3) w) >= $3
