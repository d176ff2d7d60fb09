-- The indexes of a table: name, whether unique, parts as a JSON list, and the statement that made it.
-- A part is the name of a column; of an expression only the statement knows.
select l.name, case when l."unique" then 'true' else 'false' end,
  (select json_group_array(coalesce(i.name, s.sql)) from (select name from pragma_index_info(l.name) order by seqno) i),
  case when l.partial then s.sql end
from pragma_index_list($1) l
left join sqlite_schema s on s.name = l.name and s.type = 'index'
order by l.origin = 'pk' desc, l."unique" desc, l.name
