-- The operators' tables, which a native log and the adopted tables of a file share. `source` says whose a row is: empty for the
-- native log, else the adopted table. Times are microseconds since 1970, UTC.

-- One heartbeat per boot of a relay; routes is an object of route name to health.
create table if not exists postroom_relay (
  source      text not null default '',
  boot        text not null,
  name        text not null,
  version     text not null,
  started_at  integer not null,
  seen_at     integer not null,
  alive_until integer not null,
  routes      text not null default '{}',
  primary key (source, boot)
) without rowid;

-- Who did what. Entries are never removed.
create table if not exists postroom_audit (
  number  integer primary key autoincrement,
  source  text not null default '',
  at      integer not null,
  actor   text not null,
  action  text not null,
  subject text not null,
  count   integer not null default 0,
  reason  text
);

-- What a route did, minute by minute.
create table if not exists postroom_stat (
  source    text not null default '',
  route     text not null,
  minute    integer not null,
  delivered integer not null default 0,
  retried   integer not null default 0,
  dead      integer not null default 0,
  primary key (source, route, minute)
) without rowid;
