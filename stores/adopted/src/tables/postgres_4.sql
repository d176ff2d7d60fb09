-- Step 4: further routes of a table, each with entries of its own for rows.

-- Whether the route keeps its state in entries; the first route of a table marks its rows.
alter table {schema}.adopted_route add column further boolean not null default false;
alter table {schema}.adopted_route add column start text not null default 'beginning';

-- Whose try it was; nothing where it was the first route's.
alter table {schema}.adopted_attempt add column route text;

-- What a further route has to do with a row, with a copy of the event, as nobody needs the row any more. A pending row that
-- the route has delivered keeps its entry, without the copy, until it is pending no more.
create table {schema}.adopted_delivery (
  number         int8 generated always as identity primary key,
  mapping        text not null,
  route          text not null,
  row_id         text not null,
  event_id       text not null,
  position       int8 not null,
  state          text not null check (state in ('due', 'retrying', 'dead', 'delivered')),
  blocks         boolean not null default true,
  due            timestamptz,
  attempts       int4 not null default 0,
  code           text,
  error          text,
  since          timestamptz not null,
  key            text,
  type           text,
  aggregate_type text,
  tenant         text,
  occurred_at    timestamptz,
  event          text,
  unique (mapping, row_id, event_id, route)
);
create index adopted_delivery_due on {schema}.adopted_delivery (mapping, route, due, number) where due is not null;
create index adopted_delivery_number on {schema}.adopted_delivery (mapping, route, number) where due is not null;
create index adopted_delivery_key on {schema}.adopted_delivery (mapping, route, key, number) where state = 'retrying';
create index adopted_delivery_dead on {schema}.adopted_delivery (mapping, route, since) where state = 'dead';

update {schema}.adopted_meta set value = '4' where name = 'schema_version';
