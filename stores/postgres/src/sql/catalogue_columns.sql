-- A table's schema, name and columns as the session's search path finds it, and whether an insert must give the column.
select n.nspname::text, c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod),
       a.attnotnull and not a.atthasdef and a.attidentity = '' and a.attgenerated = ''
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.oid = to_regclass($1)
order by a.attnum
