-- The columns of the tables in schema $1, and how many partitions each has. Partitions have the columns of their parent.
select c.relname::text || '.' || a.attname as name,
  format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end as type
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid
where n.nspname = $1 and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 and not a.attisdropped
union all
select c.relname::text, count(i.inhrelid) || ' partitions'
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_inherits i on i.inhparent = c.oid
where n.nspname = $1 and c.relkind = 'p'
group by 1
