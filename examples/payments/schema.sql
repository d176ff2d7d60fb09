-- The service's tables. `outbox` is as ever: the relay changes nothing about it.
create table if not exists accounts (
    id varchar(26) primary key,
    currency char(3) not null,
    balance_cents bigint not null check (balance_cents >= 0)
);
create table if not exists payments (
    id varchar(26) primary key,
    idempotency_key text unique,
    request jsonb not null,
    payer_account_id text not null,
    error_code text,
    refunded_at timestamptz,
    created_at timestamptz not null default now()
);
create index if not exists ix_payments_payer on payments (payer_account_id, created_at);
create table if not exists ledger_entries (
    payment_id varchar(26) not null references payments,
    account_id varchar(26) not null references accounts,
    amount_cents bigint not null,
    reason text not null,
    primary key (payment_id, account_id, reason)
);
create table if not exists outbox (
    id varchar(26) primary key,
    aggregate_type varchar(100) not null,
    aggregate_id varchar(26) not null,
    event_type varchar(100) not null,
    payload jsonb not null,
    created_at timestamptz not null,
    published_at timestamptz,
    retry_count integer not null default 0
);
create index if not exists ix_outbox_unpublished on outbox (created_at) where published_at is null;

-- The consumer's tables.
create table if not exists inbox (
    consumer text not null,
    event_id varchar(26) not null,
    accepted_at timestamptz not null default now(),
    primary key (consumer, event_id)
);
create table if not exists notifications (
    event_id varchar(26) not null,
    account_id text not null,
    text text not null
);
