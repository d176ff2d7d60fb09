-- Step 4: further routes of a table, each with entries of its own for rows.

-- Whether the route keeps its state in entries; the first route of a table marks its rows.
alter table postroom_adopted_route add column further integer not null default 0;
alter table postroom_adopted_route add column start text not null default 'beginning';

-- Whose try it was; nothing where it was the first route's.
alter table postroom_adopted_attempt add column route text;

-- What a further route has to do with a row, with a copy of the event, as nobody needs the row any more. A pending row that
-- the route has delivered keeps its entry, without the copy, until it is pending no more.
create table postroom_adopted_delivery (
  number         integer primary key autoincrement,
  mapping        text not null,
  route          text not null,
  row_id         text not null,
  event_id       text not null,
  position       integer not null,
  state          text not null check (state in ('due', 'retrying', 'dead', 'delivered')),
  blocks         integer not null default 1,
  due            integer,
  attempts       integer not null default 0,
  code           text,
  error          text,
  since          integer not null,
  key            text,
  type           text,
  aggregate_type text,
  tenant         text,
  occurred_at    integer,
  event          text,
  unique (mapping, row_id, event_id, route)
);
create index postroom_adopted_delivery_due on postroom_adopted_delivery (mapping, route, due, number) where due is not null;
create index postroom_adopted_delivery_number on postroom_adopted_delivery (mapping, route, number) where due is not null;
create index postroom_adopted_delivery_key on postroom_adopted_delivery (mapping, route, key, number) where state = 'retrying';
create index postroom_adopted_delivery_dead on postroom_adopted_delivery (mapping, route, since) where state = 'dead';

update postroom_adopted_meta set value = '4' where name = 'schema_version';
