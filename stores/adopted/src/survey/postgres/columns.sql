-- The columns of a table in their order: name, default, labels of an enumeration as a JSON list, checks over it alone,
-- and how many numbers a session draws at once from the sequence of the column.
select a.attname::text, pg_get_expr(d.adbin, d.adrelid),
  (select json_agg(e.enumlabel order by e.enumsortorder)::text from pg_enum e where e.enumtypid = a.atttypid),
  (select string_agg(pg_get_constraintdef(k.oid), ' ') from pg_constraint k
   where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]),
  (select max(s.seqcache)::text from pg_depend p join pg_sequence s on s.seqrelid = p.objid
   where p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid and p.refobjsubid = a.attnum)
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
order by a.attnum
