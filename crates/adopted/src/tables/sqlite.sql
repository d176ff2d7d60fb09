-- What is kept beside adopted tables. Nothing here touches them. Times are microseconds since 1970, UTC.

create table postroom_adopted_meta (
  name  text not null primary key,
  value text not null
) without rowid;

-- One route per adopted table, and who holds it.
create table postroom_adopted_route (
  name          text not null primary key,
  layout        text not null,
  filter        text not null,
  destination   text not null,
  on_failure    text not null,
  on_dead       text not null,
  registered_at integer not null,
  paused_by     text,
  holder        text,
  term          integer not null default 0,
  delivered     integer not null default 0
);

-- One heartbeat per boot of a relay; routes is an object of route name to health.
create table postroom_adopted_relay (
  boot        text not null primary key,
  name        text not null,
  version     text not null,
  started_at  integer not null,
  seen_at     integer not null,
  alive_until integer not null,
  routes      text not null default '{}'
);

-- What an adopted table has no column for, of rows that did not go straight through.
create table postroom_sidecar (
  layout   text not null,
  row_id   text not null,
  event_id text not null,
  key      text,
  state    text not null check (state in ('retrying', 'dead')),
  blocks   integer not null default 1,
  due      integer,
  attempts integer not null default 0,
  code     text,
  error    text,
  since    integer not null,
  primary key (layout, row_id)
);
create index postroom_sidecar_due on postroom_sidecar (layout, due) where due is not null;
create index postroom_sidecar_key on postroom_sidecar (layout, key) where due is not null;
create index postroom_sidecar_dead on postroom_sidecar (layout, since) where state = 'dead';

create table postroom_adopted_attempt (
  layout   text not null,
  row_id   text not null,
  attempt  integer not null,
  at       integer not null,
  outcome  text not null,
  code     text not null,
  error    text not null,
  took_ms  integer not null,
  handlers text not null default '[]'
);
create index postroom_adopted_attempt_row on postroom_adopted_attempt (layout, row_id, at);

create table postroom_adopted_audit (
  number  integer primary key autoincrement,
  at      integer not null,
  actor   text not null,
  action  text not null,
  subject text not null,
  count   integer not null default 0,
  reason  text
);

create table postroom_adopted_stat (
  route     text not null,
  minute    integer not null,
  delivered integer not null default 0,
  primary key (route, minute)
) without rowid;

insert into postroom_adopted_meta (name, value) values ('schema_version', '1');
