-- The columns of a table in their order: name, default, and which part of the primary key each is.
select name, dflt_value, cast(pk as text) from pragma_table_info($1) order by cid
