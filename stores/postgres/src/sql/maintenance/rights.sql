-- What this role lacks in schema $1 of what a relay does: rights, and the tables that lack them. `roles.sql` grants the same.
with needed (name, rights) as (values
  ('meta', '{select, insert, update}'::text[]),
  ('log', '{select}'), ('event', '{select}'), ('log_seq', '{select}'),
  ('truncated', '{select, update}'),
  ('evacuated', '{select, insert, delete}'), ('receipt', '{select, insert, delete}'),
  ('checkpoint', '{select, insert, delete}'), ('attempt', '{select, insert, delete}'),
  ('route', '{select, insert, update, delete}'), ('relay', '{select, insert, update, delete}'),
  ('lane', '{select, insert, update, delete}'), ('delivery', '{select, insert, update, delete}'),
  ('stat', '{select, insert, update, delete}'), ('replay', '{select, insert, update, delete}'),
  ('append_key', '{select, delete}'), ('inbox', '{select, delete}'),
  ('token', '{select, insert, delete}'),
  ('audit', '{select, insert, update}')
),
tables as (
  select c.oid, needed.rights from needed
  join pg_class c on c.relname = needed.name and c.relnamespace = to_regnamespace(quote_ident($1))
  union all
  select i.inhrelid, case p.relname when 'log' then '{select, truncate}'::text[] else '{select, delete, truncate}' end
  from pg_inherits i
  join pg_class p on p.oid = i.inhparent and p.relname in ('log', 'receipt')
    and p.relnamespace = to_regnamespace(quote_ident($1))
),
lacking as (
  select format('%I.%I', $1, c.relname) as name, string_agg(r.wanted, ', ' order by r.place) as rights
  from tables t
  join pg_class c on c.oid = t.oid
  cross join lateral unnest(t.rights) with ordinality r (wanted, place)
  where not has_table_privilege(t.oid, r.wanted)
    -- Of `audit` one column is enough.
    and not (r.wanted in ('select', 'insert', 'update') and has_any_column_privilege(t.oid, r.wanted))
  group by t.oid, c.relname
)
select rights, string_agg(name, ', ' order by name) as tables from lacking group by rights order by 2
