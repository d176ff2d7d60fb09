-- What the store holds: events one by one up to 100,000, then as many as the server's statistics say; and bytes of all
-- tables of the schema ($1).
select (select value::int8 from postroom.meta where name = 'schema_version') as schema_version,
  case when n.counted <= 100000 then n.counted else greatest(n.counted, s.rows) end as events, s.bytes
from (select count(*) as counted from (select from postroom.event limit 100001) e) n,
  (select sum(pg_total_relation_size(c.oid))::int8 as bytes,
     coalesce(sum(c.reltuples) filter (where c.relname ~ '^(log_[0-9]+|evacuated)$'), 0)::int8 as rows
   from pg_catalog.pg_class c join pg_catalog.pg_namespace s on s.oid = c.relnamespace
   where s.nspname = $1 and c.relkind = 'r') s
