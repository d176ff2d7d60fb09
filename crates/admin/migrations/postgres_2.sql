-- Replays, done in steps. A step expects the cursor it has found, and that the state is running.
-- `until` is how far the source had come when the replay was asked for; ids are in order of time.
create table if not exists postroom.replay (
  id               text primary key,
  source           text not null default '',
  what             text not null check (what in ('settled', 'dead')),
  selection        jsonb not null,
  until            jsonb not null,
  rate             float8,
  allow_duplicates boolean not null,
  actor            text not null,
  reason           text,
  state            text not null check (state in ('running', 'paused', 'cancelled', 'done')),
  cursor           text not null default '',
  total            int8 not null,
  done             int8 not null default 0,
  created_at       timestamptz not null,
  stepped_at       timestamptz not null,
  ended_at         timestamptz
);
create index if not exists replay_state on postroom.replay (source, state, id);

-- Tokens of the HTTP API, for everything in this database. Only hashes of secrets are kept.
-- A revoked token stays: that there was one keeps the API closed, and the audit names it.
create table if not exists postroom.token (
  name           text not null primary key,
  hash           text not null unique,
  role           text not null check (role in ('worker', 'viewer', 'operator', 'admin')),
  created_at     timestamptz not null,
  created_by     text not null,
  expires_at     timestamptz,
  routes         text not null default '[]',
  tenant         text,
  last_used_at   timestamptz,
  revoked_at     timestamptz,
  previous_hash  text,
  previous_until timestamptz
);
