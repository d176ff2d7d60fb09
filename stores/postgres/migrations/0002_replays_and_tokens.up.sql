-- What operators send again, in steps. A step expects the cursor it has found, and that the state is running.
-- `until` is how far each lane of each route had come when it was asked for; ids are in order of time.
create table postroom.replay (
  id               text primary key,
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
create index replay_state on postroom.replay (state, id);

-- Who may ask a relay over HTTP. Of a token only its hash is kept.
create table postroom.token (
  name       text not null primary key,
  hash       text not null unique,
  role       text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz
);
