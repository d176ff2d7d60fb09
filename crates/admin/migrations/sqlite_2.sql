-- Replays, done in steps. A step expects the cursor it has found, and that the state is running.
-- `until` is how far the source had come when the replay was asked for; ids are in order of time.
create table if not exists postroom_replay (
  id               text not null primary key,
  source           text not null default '',
  what             text not null check (what in ('settled', 'dead')),
  selection        text not null,
  until            text not null default '{}',
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
create index if not exists postroom_replay_state on postroom_replay (source, state, id);

-- Tokens of the HTTP API, for everything in this file. Only hashes of secrets are kept.
-- A revoked token stays: that there was one keeps the API closed, and the audit names it.
create table if not exists postroom_token (
  name           text not null primary key,
  hash           text not null unique,
  role           text not null check (role in ('worker', 'viewer', 'operator', 'admin')),
  created_at     integer not null,
  created_by     text not null,
  expires_at     integer,
  routes         text not null default '[]',
  tenant         text,
  last_used_at   integer,
  revoked_at     integer,
  previous_hash  text,
  previous_until integer
);
