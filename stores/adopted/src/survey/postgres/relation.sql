-- What a relation is, what this user may do with it, and whether rows of it are hidden from this user. One row, or none.
select c.relkind::text, current_user::text,
  has_table_privilege(c.oid, 'select')::text, has_table_privilege(c.oid, 'update')::text,
  has_table_privilege(c.oid, 'delete')::text, row_security_active(c.oid)::text
from pg_class c
where c.oid = to_regclass($1)
