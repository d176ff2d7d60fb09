-- The indexes of a table that can be used, the primary key first: name, whether unique, parts as a JSON list, condition.
-- A part is the name of a column, or an expression.
select i.relname::text, x.indisunique::text,
  (select json_agg(coalesce(a.attname::text, pg_get_indexdef(x.indexrelid, k.n::int, true)) order by k.n)::text
   from unnest(x.indkey::int2[]) with ordinality k(attnum, n)
   left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attnum and k.attnum > 0
   where k.n <= x.indnkeyatts),
  pg_get_expr(x.indpred, x.indrelid)
from pg_index x
join pg_class i on i.oid = x.indexrelid
where x.indrelid = to_regclass($1) and x.indisvalid
order by x.indisprimary desc, x.indisunique desc, i.relname
