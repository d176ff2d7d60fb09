-- The tables beside the log in schema $1, a partitioned table as one.
select coalesce(p.relname, c.relname)::text as name,
  coalesce(sum(greatest(c.reltuples::int8, s.n_live_tup, 0)), 0)::int8 as rows,
  coalesce(sum(s.n_dead_tup), 0)::int8 as dead,
  sum(pg_total_relation_size(c.oid))::int8 as bytes
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_inherits i on i.inhrelid = c.oid
left join pg_class p on p.oid = i.inhparent
left join pg_stat_all_tables s on s.relid = c.oid
where n.nspname = $1 and c.relkind = 'r' and coalesce(p.relname, c.relname) <> 'log'
group by 1
order by bytes desc, name
