-- Which of these numbers ($3) an earlier event of their key ($2) blocks. One probe of delivery_key each; `offset 0` keeps a
-- planner that knows nothing of the table yet from reading all that blocks instead.
select u.seq
from unnest($2::text[], $3::int8[]) as u(key, seq)
where exists (select 1 from postroom.delivery d where d.route = $1 and d.key = u.key and d.blocks and d.seq < u.seq offset 0)
