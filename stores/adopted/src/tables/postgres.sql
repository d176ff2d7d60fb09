-- What is kept beside adopted tables. Nothing here touches them.

create schema if not exists {schema};

create table {schema}.adopted_meta (
  name  text primary key,
  value text not null
);

-- Text that may be JSON; null when it is not, so that one bad row does not stop the others.
create function {schema}.adopted_json(value text) returns jsonb language plpgsql immutable strict as $$
begin
  return value::jsonb;
exception when others then
  return null;
end $$;

-- Text that may be a time, with or without an offset; without one it is UTC. Null when it is not.
create function {schema}.adopted_time(value text) returns timestamptz language plpgsql stable strict set timezone = 'UTC' as $$
begin
  return value::timestamptz;
exception when others then
  return null;
end $$;

-- One route per adopted table, and who holds it.
create table {schema}.adopted_route (
  name          text primary key,
  mapping        text not null,
  filter        jsonb not null,
  destination   text not null,
  on_failure    text not null,
  on_dead       text not null,
  registered_at timestamptz not null,
  paused_by     text,
  paused_at     timestamptz,
  pause_reason  text,
  probe_at      timestamptz,
  holder        text,
  term          int8 not null default 0,
  delivered     int8 not null default 0
);

-- What an adopted table has no column for, of rows that did not go straight through.
create table {schema}.sidecar (
  mapping   text not null,
  row_id   text not null,
  event_id text not null,
  key      text,
  state    text not null check (state in ('retrying', 'dead')),
  blocks   boolean not null default true,
  due      timestamptz,
  attempts int4 not null default 0,
  code     text,
  error    text,
  since    timestamptz not null,
  primary key (mapping, row_id)
);
create index sidecar_due on {schema}.sidecar (mapping, due) where due is not null;
create index sidecar_key on {schema}.sidecar (mapping, key) where due is not null;
create index sidecar_dead on {schema}.sidecar (mapping, since) where state = 'dead';

create table {schema}.adopted_attempt (
  mapping   text not null,
  row_id   text not null,
  attempt  int4 not null,
  at       timestamptz not null,
  outcome  text not null,
  code     text not null,
  error    text not null,
  took_ms  int8 not null,
  handlers jsonb not null default '[]'
);
create index adopted_attempt_row on {schema}.adopted_attempt (mapping, row_id, at);

insert into {schema}.adopted_meta (name, value) values ('schema_version', '1');
