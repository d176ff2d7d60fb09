-- The native log and everything a relay, a consumer and an operator keep beside it.
-- `postroom` stands for the configured schema; lanes, partitions and the length of a segment are fixed here, at install.

create schema if not exists {schema};

create table postroom.meta (
  name  text primary key,
  value text not null
);

-- One sequence for all lanes. Cache 1: with more, two sessions would hand out numbers out of order.
create sequence postroom.log_seq as bigint cache 1;

-- Insert-only. Partitioned by time: in operation nothing is created or dropped, space comes back by truncating a partition.
-- tx is the inserting transaction; it is taken before the number, which makes the position rule exact.
-- Null headers and attributes are none; a null content_type is application/json. Fixed widths first, to save padding.
create table postroom.log (
  partition            int2 not null,
  lane           int2 not null,
  schema_version int4 not null default 1,
  tx             int8 not null,
  seq            int8 not null,
  occurred_at    timestamptz not null,
  appended_at    timestamptz not null default clock_timestamp(),
  available_at   timestamptz,
  id             text not null,
  type           text not null,
  key            text,
  aggregate_type text,
  aggregate_id   text,
  tenant         text,
  content_type   text,
  headers        jsonb,
  attributes     jsonb,
  correlation_id text,
  causation_id   text,
  payload        bytea not null,
  -- A relay reads names of many rows at once, so who inserts by hand is held to their limits too. The size of payloads is the
  -- configuration's to say: a relay gives up larger ones without reading them.
  constraint log_names check (octet_length(id) <= 64 and octet_length(type) <= 255 and octet_length(key) <= 512
    and octet_length(aggregate_type) <= 255 and octet_length(aggregate_id) <= 512 and octet_length(tenant) <= 255
    and octet_length(content_type) <= 255 and octet_length(correlation_id) <= 255 and octet_length(causation_id) <= 255)
) partition by list (partition);

-- What an open delivery still needs of a partition that was truncated.
create table postroom.evacuated (like postroom.log including defaults, primary key (seq));

-- Where and when settled batches went; partitioned alike. replay is the replay that sent them, if one did.
create table postroom.receipt (
  partition         int2 not null,
  lane        int2 not null,
  discarded   boolean not null default false,
  first       int8 not null,
  last        int8 not null,
  at          timestamptz not null,
  route       text not null,
  ranges      int8multirange not null,
  coordinates jsonb,
  replay      text
) partition by list (partition);

do $$ begin
  for i in 0 .. {partitions} - 1 loop
    -- Vacuumed after so many inserts: that summarises the BRIN indexes and lets counts skip the rows. (Left to
    -- autosummarize, a busy log fills the server's own with complaints.)
    execute format('create table postroom.log_%s partition of postroom.log for values in (%s)
      with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000)', i, i);
    execute format('create unique index log_%s_lane_seq on postroom.log_%s (lane, seq)', i, i);
    execute format('create index log_%s_time on postroom.log_%s using brin (tx, appended_at, id)
      with (pages_per_range = 32)', i, i);
    execute format('create index log_%s_find on postroom.log_%s using brin (id text_bloom_ops, (coalesce(key, aggregate_id)) text_bloom_ops)
      with (pages_per_range = 32)', i, i);
    execute format('create table postroom.receipt_%s partition of postroom.receipt for values in (%s)', i, i);
    execute format('create index receipt_%s_first on postroom.receipt_%s (route, lane, first)', i, i);
    execute format('create index receipt_%s_replay on postroom.receipt_%s (replay) where replay is not null', i, i);
  end loop;
end $$;

-- Rows of truncated partitions, per lane.
create table postroom.truncated (
  lane int2 primary key,
  rows int8 not null default 0
);

-- An event without its payload, in the log or evacuated: what lists and viewers read.
create view postroom.event as
  select lane, tx, seq, id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes,
    correlation_id, causation_id, schema_version, occurred_at, available_at, appended_at,
    octet_length(payload) as payload_bytes, false as evacuated
  from postroom.log
  union all
  select lane, tx, seq, id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes,
    correlation_id, causation_id, schema_version, occurred_at, available_at, appended_at,
    octet_length(payload), true
  from postroom.evacuated;

-- Words of append_once. Old ones are found by block range, which new pages join when they are vacuumed.
create table postroom.append_key (
  idempotency_key text primary key,
  at   timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000);
create index append_key_at on postroom.append_key using brin (at);

-- What append_ordered locks, a row for many keys: an advisory lock could be held by any user of the database.
create table postroom.append_lock (
  number int2 primary key
);
insert into postroom.append_lock select generate_series(0, 1023);

create table postroom.route (
  name          text primary key,
  filter        jsonb not null,
  destination   text not null,
  on_failure    text not null,
  on_dead       text not null,
  start         text not null,
  start_at      timestamptz,
  registered_at timestamptz not null,
  paused_by     text,
  paused_at     timestamptz,
  pause_reason  text,
  probe_at      timestamptz
);

-- Who holds which lane of a route. Whoever changes deliveries locks their lane here: its holder `for share` with its
-- term, an operator `for no key update`. start_* is where the route began; discarded counts what operators removed.
create table postroom.lane (
  route         text not null references postroom.route (name) on update cascade,
  lane          int2 not null,
  holder        text,
  term          int8 not null,
  start_hwm     int8 not null,
  start_pending int8[] not null default '{}',
  discarded     int8 not null default 0,
  primary key (route, lane)
);

-- Append-only; of one lane the newest row of the highest term counts. Everything numbered up to hwm has been seen, except
-- what the transactions in pending may still commit above their lo. unsettled are ranges of this lane's seen rows.
create table postroom.checkpoint (
  id        bigint generated always as identity primary key,
  route     text not null,
  lane      int2 not null,
  term      int8 not null,
  hwm       int8 not null,
  pending   int8[] not null default '{}',
  los       int8[] not null default '{}',
  unsettled int8multirange not null default '{}',
  base      int8 not null,
  seen      int8 not null default 0,
  delivered int8 not null default 0,
  filtered  int8 not null default 0,
  parked    int8 not null default 0,
  recovered int8 not null default 0,
  replayed  int8 not null default 0,
  at        timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index checkpoint_newest on postroom.checkpoint (route, lane, term desc, id desc);

-- Only what did not go straight through. due is null while blocked or dead. round counts how often a dead one was made
-- due again, so that its tries are told apart; replayed_by is the replay that made it due.
create table postroom.delivery (
  handle   bigint generated always as identity primary key,
  route    text not null,
  lane     int2 not null,
  seq      int8 not null,
  replay   boolean not null default false,
  key      text,
  state    text not null check (state in ('due', 'retrying', 'blocked', 'delayed', 'dead')),
  blocks   boolean not null default false,
  due      timestamptz check ((due is null) = (state in ('blocked', 'dead'))),
  attempts int4 not null default 0,
  round    int4 not null default 0,
  code     text,
  error    text,
  since    timestamptz not null,
  replayed_by text
) with (autovacuum_vacuum_scale_factor = 0.05);
create unique index delivery_event on postroom.delivery (seq, route, replay);
create index delivery_due on postroom.delivery (route, lane, due, seq) where due is not null;
create index delivery_key on postroom.delivery (route, key, state, seq) where blocks;
-- With the key in it: before the table was analysed the planner cannot tell this index from delivery_key, and may take
-- either one to find the followers of a key.
create index delivery_state on postroom.delivery (route, state, key, seq);
create index delivery_dead on postroom.delivery (seq) where state = 'dead';
create index delivery_replay on postroom.delivery (replayed_by, state) where replayed_by is not null;

create table postroom.attempt (
  delivery int8 not null,
  round    int4 not null,
  attempt  int4 not null,
  route    text not null,
  seq      int8 not null,
  at       timestamptz not null,
  outcome  text not null,
  code     text not null,
  error    text not null,
  took_ms  int8 not null,
  handlers jsonb not null default '[]',
  replay   text,
  primary key (delivery, round, attempt)
);
create index attempt_event on postroom.attempt (seq, route);
create index attempt_at on postroom.attempt (at);

create table postroom.inbox (
  consumer    text not null,
  id          text not null,
  accepted_at timestamptz not null default clock_timestamp(),
  primary key (id, consumer)
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000);
create index inbox_at on postroom.inbox using brin (accepted_at);

insert into postroom.meta (name, value)
values ('schema_version', '1'), ('lanes', '{lanes}'), ('partitions', '{partitions}'), ('segment', '{segment}'),
  ('payload_max', '{payload_max}'),
  ('system_identifier', (select system_identifier::text from pg_control_system())),
  ('timeline', (select timeline_id::text from pg_control_checkpoint())),
  ('database', (select oid::text from pg_database where datname = current_database())),
  ('servers', coalesce(host(inet_server_addr()) || ':' || inet_server_port(), ''));
insert into postroom.truncated (lane) select generate_series(0, {lanes} - 1);
