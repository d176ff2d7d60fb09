-- The columns of each unique index of a table that holds for every row and tells texts apart byte by byte; and a single
-- integer key, which has no index.
select i.name, c.name
from pragma_index_list(?1, ?2) i
join pragma_index_xinfo(i.name, ?2) c
where i."unique" = 1 and i.partial = 0 and c.key = 1
  and not exists (select 1 from pragma_index_xinfo(i.name, ?2) x where x.key = 1 and (x.name is null or x.coll <> 'BINARY'))
union all
select '', name from pragma_table_info(?1, ?2)
where pk = 1 and upper(type) = 'INTEGER' and (select count(*) from pragma_table_info(?1, ?2) where pk > 0) = 1
order by 1
