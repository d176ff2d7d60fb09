-- The columns of each unique index of a table that decides at once and for every row: not deferrable, not partial, over
-- columns as they are.
select array(
    select a.attname::text
    from unnest(i.indkey::int2[]) with ordinality k (number, place)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
    where k.place <= i.indnkeyatts
    order by k.place)
from pg_index i
where i.indrelid = to_regclass($1)
  and i.indisunique and i.indimmediate and i.indisvalid and i.indpred is null and i.indexprs is null
