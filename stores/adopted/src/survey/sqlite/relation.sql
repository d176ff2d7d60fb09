-- What a relation is. One row, or none.
select type from sqlite_schema where lower(name) = lower($1) and type in ('table', 'view')
