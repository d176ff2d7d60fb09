-- What operators send again, in steps. A step expects the cursor it has found, and that the state is running.

-- `until` is how far each route had come when it was asked for; ids are in order of time.
create table postroom_replay (
  id               text not null primary key,
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
create index postroom_replay_state on postroom_replay (state, id);

-- Who may ask a relay over HTTP. Of a token only its hash is kept.
create table postroom_token (
  name       text not null primary key,
  hash       text not null unique,
  role       text not null check (role in ('viewer', 'operator', 'admin')),
  created_at integer not null,
  created_by text not null,
  expires_at integer
);
