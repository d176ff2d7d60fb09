-- What is kept beside adopted tables. Nothing here touches them. Times are microseconds since 1970, UTC.

create table postroom_adopted_meta (
  name  text not null primary key,
  value text not null
) without rowid;

-- One route per adopted table, and who holds it.
create table postroom_adopted_route (
  name          text not null primary key,
  mapping        text not null,
  filter        text not null,
  destination   text not null,
  on_failure    text not null,
  on_dead       text not null,
  registered_at integer not null,
  paused_by     text,
  paused_at     integer,
  pause_reason  text,
  probe_at      integer,
  holder        text,
  term          integer not null default 0,
  delivered     integer not null default 0
);

-- What an adopted table has no column for, of rows that did not go straight through.
create table postroom_sidecar (
  mapping   text not null,
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
  primary key (mapping, row_id)
);
create index postroom_sidecar_due on postroom_sidecar (mapping, due) where due is not null;
create index postroom_sidecar_key on postroom_sidecar (mapping, key) where due is not null;
create index postroom_sidecar_dead on postroom_sidecar (mapping, since) where state = 'dead';

create table postroom_adopted_attempt (
  mapping   text not null,
  row_id   text not null,
  attempt  integer not null,
  at       integer not null,
  outcome  text not null,
  code     text not null,
  error    text not null,
  took_ms  integer not null,
  handlers text not null default '[]'
);
create index postroom_adopted_attempt_row on postroom_adopted_attempt (mapping, row_id, at);

insert into postroom_adopted_meta (name, value) values ('schema_version', '1');
