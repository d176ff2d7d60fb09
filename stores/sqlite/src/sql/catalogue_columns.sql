-- A table's columns, and whether an insert must give the column. A single integer key fills itself.
select name, type, "notnull" = 1 and dflt_value is null and not (pk = 1 and upper(type) = 'INTEGER')
from pragma_table_info(?1, ?2)
order by cid
