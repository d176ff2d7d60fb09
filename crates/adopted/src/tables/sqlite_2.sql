-- Step 2: what operators send again, in steps; and what failed, per minute.

-- `until` is the last row there was when it was asked for; ids are in order of time.
create table postroom_adopted_replay (
  id               text not null primary key,
  layout           text not null,
  what             text not null check (what in ('settled', 'dead')),
  selection        text not null,
  until            integer not null,
  rate             real,
  allow_duplicates integer not null,
  actor            text not null,
  reason           text,
  state            text not null check (state in ('running', 'paused', 'cancelled', 'done')),
  cursor           text not null default '',
  total            integer not null,
  done             integer not null default 0,
  created_at       integer not null,
  stepped_at       integer not null,
  ended_at         integer
) without rowid;
create index postroom_adopted_replay_state on postroom_adopted_replay (layout, state, id);

alter table postroom_adopted_stat add column retried integer not null default 0;
alter table postroom_adopted_stat add column dead integer not null default 0;

-- Who may ask a relay over HTTP. Of a token only its hash is kept.
create table postroom_adopted_token (
  name       text not null primary key,
  hash       text not null unique,
  role       text not null check (role in ('viewer', 'operator', 'admin')),
  created_at integer not null,
  created_by text not null,
  expires_at integer
);

update postroom_adopted_meta set value = '2' where name = 'schema_version';
