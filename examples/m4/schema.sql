-- The tables of the events, as ever: the relay changes nothing about them.
create table if not exists event_outbox (
  id text primary key,
  event_id text not null,
  event_type text not null,
  payload jsonb not null,
  status text not null default 'pending',
  attempts integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  sent_at timestamptz
);
create index if not exists event_outbox_pending on event_outbox (created_at, id) where status = 'pending';
create table if not exists processed_events (
  event_id text not null,
  consumer_name text not null,
  primary key (event_id, consumer_name)
);
create table if not exists dead_letter_events (
  event_id text not null unique,
  event_type text not null,
  payload jsonb not null,
  error text,
  first_seen_at timestamptz not null default current_timestamp,
  last_seen_at timestamptz not null default current_timestamp,
  attempts integer not null default 1
);

-- The service's tables.
create table if not exists windows (station text not null, kwh bigint not null);
create table if not exists tariffs (station text primary key, cents_per_kwh bigint not null);
create table if not exists dashboards (station text primary key, kwh bigint not null, updates bigint not null);
create table if not exists settlements (station text not null, cents bigint not null);
create table if not exists invoices (station text not null, cents bigint not null);
insert into tariffs values ('station-1', 20), ('station-2', 30) on conflict do nothing;
