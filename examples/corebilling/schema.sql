-- The table of the events, as ever: the relay changes nothing about it.
create table if not exists billing_events (
  id text primary key,
  subject text not null,
  tenant_id text not null,
  resource_id text,
  payload jsonb not null,
  created_at timestamptz not null default current_timestamp
);
create index if not exists billing_events_pending on billing_events (id) where (payload->>'outbox_status') = 'pending';

-- The service's tables, and the consumer's.
create table if not exists subscriptions (id text primary key, tenant_id text not null, status text not null);
create table if not exists accepted_events (consumer text not null, event_id text not null, primary key (consumer, event_id));
create table if not exists welcome_mails (subscription text primary key);
