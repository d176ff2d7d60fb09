-- The operators' tables, which a native log and the adopted tables of a database share. `source` says whose a row is: empty for
-- the native log, else the adopted table.

-- One heartbeat per boot of a relay; routes is an object of route name to health.
create table if not exists postroom.relay (
  source      text not null default '',
  boot        text not null,
  name        text not null,
  version     text not null,
  started_at  timestamptz not null,
  seen_at     timestamptz not null,
  alive_until timestamptz not null,
  routes      jsonb not null default '{}',
  primary key (source, boot)
);

-- Who did what. Entries are never removed.
create table if not exists postroom.audit (
  number  bigint generated always as identity primary key,
  source  text not null default '',
  at      timestamptz not null,
  actor   text not null,
  action  text not null,
  subject text not null,
  count   int8 not null default 0,
  reason  text
);

-- What a route did, minute by minute.
create table if not exists postroom.stat (
  source    text not null default '',
  route     text not null,
  minute    timestamptz not null,
  delivered int8 not null default 0,
  retried   int8 not null default 0,
  dead      int8 not null default 0,
  primary key (source, route, minute)
);
