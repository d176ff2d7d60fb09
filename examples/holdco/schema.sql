-- The company's tables. `event_outbox` and `event_inbox` are as ever: the relay changes nothing about them.
create table if not exists stock (
    sku text primary key,
    pieces integer not null check (pieces >= 0)
);
create table if not exists orders (
    id uuid primary key default gen_random_uuid(),
    group_id uuid not null,
    subsidiary_id uuid not null,
    order_no text not null unique,
    total_amount text not null,
    status text not null default 'open'
);
create table if not exists stock_adjustments (
    id uuid primary key default gen_random_uuid(),
    order_id uuid not null references orders,
    sku text not null references stock,
    pieces integer not null
);
create table if not exists payment_intents (
    id uuid primary key default gen_random_uuid(),
    order_id uuid not null references orders,
    status text not null
);
create table if not exists event_outbox (
    id uuid primary key default gen_random_uuid(),
    group_id uuid not null,
    subsidiary_id uuid,
    aggregate_type text not null,
    aggregate_id uuid not null,
    event_type text not null,
    payload jsonb not null,
    status text not null default 'pending',
    available_at timestamptz not null default now(),
    attempts integer not null default 0,
    created_at timestamptz not null default now()
);
create index if not exists event_outbox_status_available_at on event_outbox (status, available_at);
create index if not exists event_outbox_aggregate on event_outbox (aggregate_type, aggregate_id);

-- The consumer's tables.
create table if not exists event_inbox (
    consumer_name text not null,
    event_id uuid not null,
    processed_at timestamptz not null default now(),
    unique (consumer_name, event_id)
);
create table if not exists notifications (
    event_id uuid primary key,
    text text not null
);
