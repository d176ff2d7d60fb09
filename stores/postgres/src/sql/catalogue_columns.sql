-- A table's schema, name and columns as the session's search path finds it. Of each column: its type, of a domain the one
-- that it is made of; the type's name as every session understands it, whatever its search path; whether it may be null;
-- whether an insert must give it.
select n.nspname::text, c.relname::text, a.attname::text,
       case when b.typnamespace = 'pg_catalog'::regnamespace then format_type(b.oid, base.modifier) else b.typname::text end,
       case when t.typnamespace = 'pg_catalog'::regnamespace then format_type(t.oid, a.atttypmod)
            else format('%I.%I', s.nspname, t.typname) end,
       not (a.attnotnull or t.typnotnull),
       a.attnotnull and not a.atthasdef and a.attidentity = '' and a.attgenerated = ''
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
join pg_namespace s on s.oid = t.typnamespace
cross join lateral (
    with recursive below (type, modifier) as (
        select a.atttypid, a.atttypmod
        union all
        select d.typbasetype, d.typtypmod from below join pg_type d on d.oid = below.type and d.typtype = 'd')
    select type, modifier from below) base
join pg_type b on b.oid = base.type and b.typtype <> 'd'
where c.oid = to_regclass($1)
order by a.attnum
