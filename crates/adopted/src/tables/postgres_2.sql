-- Step 2: what operators send again, in steps; and what failed, per minute.

-- `until` is the last row there was when it was asked for; ids are in order of time.
create table {schema}.adopted_replay (
  id               text primary key,
  layout           text not null,
  what             text not null check (what in ('settled', 'dead')),
  selection        jsonb not null,
  until            int8 not null,
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
create index adopted_replay_state on {schema}.adopted_replay (layout, state, id);

alter table {schema}.adopted_stat
  add column retried int8 not null default 0,
  add column dead    int8 not null default 0;

-- Who may ask a relay over HTTP. Of a token only its hash is kept.
create table {schema}.adopted_token (
  name       text not null primary key,
  hash       text not null unique,
  role       text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz
);

update {schema}.adopted_meta set value = '2' where name = 'schema_version';
