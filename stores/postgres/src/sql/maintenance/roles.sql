-- One role per task, with the rights it needs and no more. Roles cannot log in: grant them to your users.
-- May run again and again, and should after `postroom store migrate up`, because new tables need their grants.
-- Run it as a superuser, or as the owner of the schema with the right to create roles.

do $$
declare role text;
begin
  -- Two at once would change the same rights of the database, and one of them fail.
  perform pg_advisory_xact_lock(hashtext('postroom roles'));
  foreach role in array array['{append}', '{relay}', '{inbox}', '{viewer}', '{migrate}'] loop
    if not exists (select from pg_roles where rolname = role) then
      execute format('create role %I nologin', role);
    end if;
  end loop;
end $$;

-- {migrate}: owns everything; for `store migrate`, `store repair` and `store accept-identity`.
do $$
declare thing record;
begin
  -- Again, for those who run this statement by statement.
  perform pg_advisory_xact_lock(hashtext('postroom roles'));
  execute format('grant create on database %I to "{migrate}"', current_database());
  if (select nspowner::regrole::text from pg_namespace where nspname = '{schema}') <> quote_ident('{migrate}') then
    execute 'alter schema "{schema}" owner to "{migrate}"';
  end if;
  for thing in
    select case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end as kind, c.oid::regclass::text as name
    from pg_class c
    where c.relnamespace = '"{schema}"'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
      and c.relowner <> '"{migrate}"'::regrole
      -- What belongs to a column goes with its table.
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i' and c.relkind = 'S')
    union all
    select 'function', p.oid::regprocedure::text from pg_proc p
    where p.pronamespace = '"{schema}"'::regnamespace and p.proowner <> '"{migrate}"'::regrole
  loop
    execute format('alter %s %s owner to "{migrate}"', thing.kind, thing.name);
  end loop;
end $$;

grant usage on schema "{schema}" to "{append}", "{relay}", "{inbox}", "{viewer}";
grant select on postroom.meta to "{append}", "{relay}", "{inbox}", "{viewer}";

-- {append}: producers, by the functions only: who inserts into the log by hand chooses numbers, and could stop every route.
grant execute on function postroom.append, postroom.append_bytes, postroom.append_many, postroom.append_once,
  postroom.append_ordered, postroom.append_rows to "{append}";

-- {inbox}: consumers.
grant execute on function postroom.accept to "{inbox}";
grant select, insert on postroom.inbox to "{inbox}";

-- {relay}: relays and operators. It reads the log and empties its partitions; it never appends.
grant select on postroom.log, postroom.event, postroom.log_seq to "{relay}";
-- Of the log it changes nothing but payloads that an operator erases.
grant update (payload, content_type, headers) on postroom.log, postroom.evacuated to "{relay}";
grant insert, update on postroom.meta to "{relay}";
grant select, update on postroom.truncated to "{relay}";
grant select, insert, delete on postroom.evacuated, postroom.receipt, postroom.checkpoint, postroom.attempt to "{relay}";
-- A route that is renamed takes its rows along.
grant update (route) on postroom.receipt, postroom.checkpoint, postroom.attempt to "{relay}";
grant select, insert, update, delete on postroom.route, postroom.relay, postroom.lane, postroom.delivery, postroom.stat,
  postroom.replay to "{relay}";
grant select, delete on postroom.append_key, postroom.inbox to "{relay}";
grant select, insert, delete on postroom.token to "{relay}";
grant select, insert, update (count) on postroom.audit to "{relay}";
do $$
declare partition record;
begin
  for partition in select inhrelid::regclass::text as name, inhparent = 'postroom.receipt'::regclass as receipts from pg_inherits
    where inhparent in ('postroom.log'::regclass, 'postroom.receipt'::regclass)
  loop
    execute format('grant select, truncate on %s to "{relay}"', partition.name);
    if partition.receipts then
      execute format('grant delete on %s to "{relay}"', partition.name);
    end if;
  end loop;
end $$;

-- {viewer}: everything but payloads, which only `log` and `evacuated` have.
grant select on postroom.event, postroom.log_seq, postroom.truncated, postroom.receipt, postroom.route, postroom.relay,
  postroom.lane, postroom.checkpoint, postroom.delivery, postroom.attempt, postroom.stat, postroom.append_key,
  postroom.inbox, postroom.audit, postroom.replay to "{viewer}";

-- Then, for instance:
--   grant "{append}" to shop;
--   grant "{relay}" to shop_relay;
