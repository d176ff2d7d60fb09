-- Deletes those of the next 5,000 checkpoints after id $1 that one of $2 to $5 (route, lane, term, id) supersedes; says
-- where they end, if they were that many. By primary key.
with s as materialized (select id from postroom.checkpoint where id > $1 order by id limit 5000),
gone as (
  delete from postroom.checkpoint c using unnest($2::text[], $3::int2[], $4::int8[], $5::int8[]) as k(route, lane, term, id)
  where c.id in (select id from s) and c.route = k.route and c.lane = k.lane and (c.term, c.id) < (k.term, k.id))
select case when count(*) = 5000 and max(id) < (select max(k) from unnest($5::int8[]) k) then max(id) end from s
