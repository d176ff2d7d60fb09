-- The native log and everything a relay, a consumer and an operator keep beside it.
-- Times are whole microseconds since 1970, UTC. Other languages may insert into postroom_log and postroom_inbox.

create table postroom_meta (
  name  text not null primary key,
  value integer not null
) without rowid;

-- Autoincrement: a plain rowid would start at 1 again once retention has emptied the table, and nobody would read that.
-- Strict, and with checks: other languages insert here, and a row that cannot be read would stop every route.
-- The payload stands last, so that reading the other columns never walks its pages.
create table postroom_log (
  seq            integer primary key autoincrement,
  lane           integer not null default 0 check (lane = 0),
  id             text not null default (lower(hex(randomblob(16)))) check (id <> ''),
  type           text not null check (type <> ''),
  key            text,
  aggregate_type text,
  aggregate_id   text,
  tenant         text,
  content_type   text not null default 'application/json',
  headers        text not null default '{}' check (headers = '{}' or json_type(headers) = 'object'),
  attributes     text not null default '{}' check (attributes = '{}' or json_type(attributes) = 'object'),
  correlation_id text,
  causation_id   text,
  schema_version integer not null default 1 check (schema_version between -2147483648 and 2147483647),
  occurred_at    integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
  available_at   integer,
  appended_at    integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
  payload        any not null check (typeof(payload) in ('text', 'blob')),
  -- A relay reads names of many rows at once. (In characters: older versions, which may insert, know no octet_length.) The size of
  -- payloads is the configuration's to say: a relay gives up larger ones without reading them.
  constraint log_names check (length(id) <= 64 and length(type) <= 255 and length(key) <= 512 and length(aggregate_type) <= 255
    and length(aggregate_id) <= 512 and length(tenant) <= 255 and length(content_type) <= 255 and length(correlation_id) <= 255
    and length(causation_id) <= 255)
) strict;
create index postroom_log_id on postroom_log (id);
create index postroom_log_key on postroom_log (coalesce(key, aggregate_id)) where coalesce(key, aggregate_id) is not null;

create table postroom_append_key (
  idempotency_key text not null unique,
  at   integer not null
);

create table postroom_route (
  name          text not null primary key,
  filter        text not null,
  destination   text not null,
  on_failure    text not null,
  on_dead       text not null,
  start         text not null,
  start_seq     integer not null,
  start_at      integer,
  registered_at integer not null,
  paused_by     text,
  paused_at     integer,
  pause_reason  text,
  probe_at      integer
) without rowid;

create table postroom_lane (
  route  text not null,
  lane   integer not null,
  holder text,
  term   integer not null,
  primary key (route, lane)
) without rowid;

-- The owner writes hwm to parked as absolute values and counts its writes; recovered and discarded only grow by the
-- rows that really changed, because operators change them too.
create table postroom_checkpoint (
  route     text not null,
  lane      integer not null,
  term      integer not null,
  writes    integer not null default 0,
  hwm       integer not null,
  unsettled text not null default '[]',
  base      integer not null,
  seen      integer not null default 0,
  delivered integer not null default 0,
  filtered  integer not null default 0,
  parked    integer not null default 0,
  recovered integer not null default 0,
  discarded integer not null default 0,
  replayed  integer not null default 0,
  primary key (route, lane)
) without rowid;

-- Only what did not go straight through. due is null while blocked or dead. round counts how often a dead one was
-- made due again, so that its tries are told apart; replayed_by is the replay that made it due.
create table postroom_delivery (
  handle   integer primary key autoincrement,
  route    text not null,
  seq      integer not null,
  replay   integer not null default 0,
  key      text,
  state    text not null check (state in ('due', 'retrying', 'blocked', 'delayed', 'dead')),
  blocks   integer not null default 0,
  due      integer check ((due is null) = (state in ('blocked', 'dead'))),
  attempts integer not null default 0,
  round    integer not null default 0,
  code     text,
  error    text,
  since    integer not null,
  replayed_by text
);
create unique index postroom_delivery_event on postroom_delivery (seq, route, replay);
create index postroom_delivery_due on postroom_delivery (route, due, seq) where due is not null;
create index postroom_delivery_key on postroom_delivery (route, key, state, seq) where blocks = 1;
create index postroom_delivery_state on postroom_delivery (route, state);
create index postroom_delivery_dead on postroom_delivery (seq) where state = 'dead';
create index postroom_delivery_replay on postroom_delivery (replayed_by, state) where replayed_by is not null;

create table postroom_attempt (
  delivery integer not null,
  round    integer not null,
  attempt  integer not null,
  route    text not null,
  seq      integer not null,
  at       integer not null,
  outcome  text not null,
  code     text not null,
  error    text not null,
  took_ms  integer not null,
  handlers text not null default '[]',
  replay   text,
  unique (delivery, round, attempt)
);
create index postroom_attempt_event on postroom_attempt (seq, route);

-- One row per settled batch of first deliveries, one per event that was delivered or discarded later; replay is the replay
-- that sent it, if one did.
create table postroom_receipt (
  number      integer primary key,
  route       text not null,
  lane        integer not null,
  first       integer not null,
  last        integer not null,
  ranges      text not null,
  coordinates text not null default '{}',
  discarded   integer not null default 0,
  at          integer not null,
  replay      text
);
create index postroom_receipt_first on postroom_receipt (route, first);
create index postroom_receipt_replay on postroom_receipt (replay) where replay is not null;

create table postroom_inbox (
  consumer    text not null,
  id          text not null,
  accepted_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
  primary key (id, consumer)
) strict;

insert into postroom_meta (name, value) values ('schema_version', 1), ('pruned', 0);
