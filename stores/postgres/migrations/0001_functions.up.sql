-- Appending and accepting from any language. Each append takes its transaction id before it draws a number.
-- They run with their owner's rights, so that a producer needs nothing but EXECUTE on them.

-- Random, with the time in front and version 7 in the bits for it. (Not in SQL: that would be planned anew by every append.)
create function postroom.uuid7() returns text language plpgsql volatile as $$
begin
  return encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::int8) from 3) from 1 for 6), 52, 1), 53, 1),
    'hex')::uuid::text;
end $$;

-- Says what is wrong with an event, if anything is. Asked when it is not plainly right: short, nothing empty, nothing odd.
-- The limit of payloads is that of the configuration which `store migrate up` saw last.
create function postroom.check_event(
  type text, id text, key text, aggregate_type text, aggregate_id text, tenant text, correlation_id text,
  causation_id text, headers jsonb, attributes jsonb, payload_bytes int
) returns void language plpgsql as $$
declare
  f record;
  most int8;
begin
  for f in select * from (values
    ('type', coalesce(type, ''), 255), ('id', id, 64), ('key', key, 512), ('aggregate_type', aggregate_type, 255),
    ('aggregate_id', aggregate_id, 512), ('tenant', tenant, 255), ('correlation_id', correlation_id, 255),
    ('causation_id', causation_id, 255)) v(name, value, bytes)
  loop
    if f.value = '' then
      raise exception 'event % is empty', f.name using errcode = 'invalid_parameter_value',
        hint = 'give it a value, for instance order.placed, or leave it out';
    elsif octet_length(f.value) > f.bytes then
      raise exception 'event % is % bytes, the limit is %', f.name, octet_length(f.value), f.bytes
        using errcode = 'invalid_parameter_value', hint = 'shorten it';
    elsif f.value ~ '[[:cntrl:]]' then
      raise exception 'event % contains a control character', f.name using errcode = 'invalid_parameter_value',
        hint = 'remove line breaks and control characters';
    end if;
  end loop;
  if jsonb_typeof(headers) <> 'object' or jsonb_typeof(attributes) <> 'object' then
    raise exception 'event headers and attributes must be JSON objects' using errcode = 'invalid_parameter_value';
  end if;
  if payload_bytes is null then
    raise exception 'event payload is null' using errcode = 'null_value_not_allowed',
      hint = 'an event without data has the JSON payload null, which is the default';
  end if;
  most := (select sum(octet_length(h.key) + octet_length(h.value))
    from (select * from jsonb_each_text(headers) union all select * from jsonb_each_text(attributes)) h);
  if most > 65536 then
    raise exception 'event headers and attributes are % bytes, the limit is 65536', most
      using errcode = 'program_limit_exceeded', hint = 'put data into the payload';
  end if;
  select value::int8 into most from postroom.meta where name = 'payload_max';
  if payload_bytes > most then
    raise exception 'event payload is % bytes, the limit is %', payload_bytes, most
      using errcode = 'program_limit_exceeded',
        hint = 'store the data elsewhere and send its address, or raise limits.payload and run postroom store migrate up';
  end if;
end $$;

create function postroom.append(
  type text, key text default null, payload json default 'null', id text default null, aggregate_type text default null,
  aggregate_id text default null, tenant text default null, headers jsonb default '{}', attributes jsonb default '{}',
  correlation_id text default null, causation_id text default null, schema_version int default 1,
  occurred_at timestamptz default null, available_at timestamptz default null
) returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  -- First of all: whoever holds a number must be seen to run by everybody who reads past it.
  x int8 := pg_current_xact_id()::text::int8;
  at timestamptz := clock_timestamp();
  name text := coalesce(id, postroom.uuid7());
begin
  if (least(octet_length(type), octet_length(name), octet_length(key), octet_length(aggregate_type), octet_length(aggregate_id),
        octet_length(tenant), octet_length(correlation_id), octet_length(causation_id)) > 0
      and type is not null and payload is not null and octet_length(name) <= 64
      and octet_length(concat(type, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id)) <= 255
      and concat(type, name, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id) !~ '[[:cntrl:]]'
      and jsonb_typeof(headers) = 'object' and jsonb_typeof(attributes) = 'object' and octet_length(payload::text) <= 32768
      and octet_length(headers::text) + octet_length(attributes::text) <= 32768) is not true then
    perform postroom.check_event(type, name, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id, headers,
      attributes, octet_length(payload::text));
  end if;
  insert into postroom.log (
    partition, lane, schema_version, tx, seq, occurred_at, appended_at, available_at, id, type, key, aggregate_type, aggregate_id,
    tenant, content_type, headers, attributes, correlation_id, causation_id, payload
  ) values (
    date_part('epoch', at)::int8 / {segment} % {partitions},
    (hashtextextended(coalesce(key, aggregate_id, name), 0) & 9223372036854775807) % {lanes},
    coalesce(schema_version, 1), x, nextval('postroom.log_seq'), coalesce(occurred_at, at), at, available_at, name, type, key,
    aggregate_type, aggregate_id, tenant, null, nullif(headers, '{}'), nullif(attributes, '{}'),
    correlation_id, causation_id, convert_to(payload::text, 'UTF8')
  );
  return name;
end $$;

create function postroom.append_bytes(
  type text, key text, payload bytea, content_type text,
  id text default null, aggregate_type text default null, aggregate_id text default null, tenant text default null,
  headers jsonb default '{}', attributes jsonb default '{}', correlation_id text default null,
  causation_id text default null, schema_version int default 1, occurred_at timestamptz default null,
  available_at timestamptz default null
) returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  -- First of all: whoever holds a number must be seen to run by everybody who reads past it.
  x int8 := pg_current_xact_id()::text::int8;
  at timestamptz := clock_timestamp();
  name text := coalesce(id, postroom.uuid7());
begin
  if (octet_length(content_type) between 1 and 255 and content_type !~ '[[:cntrl:]]') is not true then
    raise exception 'event content_type is missing, longer than 255 bytes or has a control character'
      using errcode = 'invalid_parameter_value', hint = 'say what the bytes are, for instance application/pdf';
  end if;
  if (least(octet_length(type), octet_length(name), octet_length(key), octet_length(aggregate_type), octet_length(aggregate_id),
        octet_length(tenant), octet_length(correlation_id), octet_length(causation_id)) > 0
      and type is not null and payload is not null and octet_length(name) <= 64
      and octet_length(concat(type, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id)) <= 255
      and concat(type, name, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id) !~ '[[:cntrl:]]'
      and jsonb_typeof(headers) = 'object' and jsonb_typeof(attributes) = 'object' and octet_length(payload) <= 32768
      and octet_length(headers::text) + octet_length(attributes::text) <= 32768) is not true then
    perform postroom.check_event(type, name, key, aggregate_type, aggregate_id, tenant, correlation_id, causation_id, headers,
      attributes, octet_length(payload));
  end if;
  insert into postroom.log (
    partition, lane, schema_version, tx, seq, occurred_at, appended_at, available_at, id, type, key, aggregate_type, aggregate_id,
    tenant, content_type, headers, attributes, correlation_id, causation_id, payload
  ) values (
    date_part('epoch', at)::int8 / {segment} % {partitions},
    (hashtextextended(coalesce(key, aggregate_id, name), 0) & 9223372036854775807) % {lanes},
    coalesce(schema_version, 1), x, nextval('postroom.log_seq'), coalesce(occurred_at, at), at, available_at, name, type, key,
    aggregate_type, aggregate_id, tenant, nullif(content_type, 'application/json'), nullif(headers, '{}'), nullif(attributes, '{}'),
    correlation_id, causation_id, payload
  );
  return name;
end $$;

create function postroom.append_many(events json) returns setof text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  x int8 := pg_current_xact_id()::text::int8;
  e json;
begin
  if json_typeof(events) is distinct from 'array' then
    raise exception 'append_many takes a JSON array of events, not %', coalesce(json_typeof(events), 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  for e in select * from json_array_elements(events) loop
    if json_typeof(e) <> 'object' or exists (
      select from json_object_keys(e) k where k not in ('type', 'key', 'payload', 'id', 'aggregate_type', 'aggregate_id', 'tenant',
        'headers', 'attributes', 'correlation_id', 'causation_id', 'schema_version', 'occurred_at', 'available_at'))
    then
      raise exception 'append_many takes objects with the names of append''s parameters'
        using errcode = 'invalid_parameter_value',
          detail = (select 'unknown: ' || string_agg(k, ', ') from json_object_keys(case json_typeof(e) when 'object' then e else '{}' end) k
            where k not in ('type', 'key', 'payload', 'id', 'aggregate_type', 'aggregate_id', 'tenant', 'headers', 'attributes',
              'correlation_id', 'causation_id', 'schema_version', 'occurred_at', 'available_at'));
    end if;
    return next postroom.append(
      e ->> 'type', e ->> 'key', coalesce(e -> 'payload', 'null'), e ->> 'id', e ->> 'aggregate_type', e ->> 'aggregate_id',
      e ->> 'tenant', coalesce((e ->> 'headers')::jsonb, '{}'), coalesce((e ->> 'attributes')::jsonb, '{}'),
      e ->> 'correlation_id', e ->> 'causation_id', coalesce((e ->> 'schema_version')::int, 1),
      (e ->> 'occurred_at')::timestamptz, (e ->> 'available_at')::timestamptz);
  end loop;
end $$;

-- What the library calls for roles that may not insert: several events in order, column by column, as it writes them; returns
-- their ids. Nothing when `idempotency_key` is there and was used before. The position of an event is not the caller's to say.
create function postroom.append_rows(
  id text[], type text[], key text[], aggregate_type text[], aggregate_id text[], tenant text[], content_type text[],
  headers text[], attributes text[], correlation_id text[], causation_id text[], schema_version int[], occurred_at text[],
  available_at text[], payload bytea[], idempotency_key text default null
) returns setof text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  -- First of all: whoever holds a number must be seen to run by everybody who reads past it.
  x int8 := pg_current_xact_id()::text::int8;
  now_at timestamptz := clock_timestamp();
  e record;
begin
  for e in
    select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $15) as r(id, type, key, aggregate_type, aggregate_id,
      tenant, content_type, headers, attributes, correlation_id, causation_id, payload)
    where (least(octet_length(type), octet_length(id), octet_length(key), octet_length(aggregate_type), octet_length(aggregate_id),
        octet_length(tenant), octet_length(content_type), octet_length(correlation_id), octet_length(causation_id)) > 0
      and id is not null and type is not null and payload is not null and octet_length(id) <= 64
      and octet_length(concat(type, key, aggregate_type, aggregate_id, tenant, content_type, correlation_id, causation_id)) <= 255
      and concat(type, id, key, aggregate_type, aggregate_id, tenant, content_type, correlation_id, causation_id) !~ '[[:cntrl:]]'
      and headers is null and attributes is null and octet_length(payload) <= 32768) is not true
  loop
    if (octet_length(e.content_type) between 1 and 255 and e.content_type !~ '[[:cntrl:]]') is false then
      raise exception 'event content_type is empty, longer than 255 bytes or has a control character'
        using errcode = 'invalid_parameter_value', hint = 'say what the bytes are, for instance application/pdf';
    end if;
    perform postroom.check_event(e.type, e.id, e.key, e.aggregate_type, e.aggregate_id, e.tenant, e.correlation_id,
      e.causation_id, coalesce(e.headers, '{}')::jsonb, coalesce(e.attributes, '{}')::jsonb, octet_length(e.payload));
  end loop;
  if $16 is not null then
    if octet_length($16) not between 1 and 255 then
      raise exception 'the idempotency key is % bytes, it must be 1 to 255', octet_length($16)
        using errcode = 'invalid_parameter_value', hint = 'use the id of the request that must not be repeated';
    end if;
    insert into postroom.append_key (idempotency_key) values ($16) on conflict do nothing;
    if not found then
      return;
    end if;
  end if;
  return query insert into postroom.log (
    partition, lane, schema_version, tx, seq, occurred_at, appended_at, available_at, id, type, key, aggregate_type, aggregate_id,
    tenant, content_type, headers, attributes, correlation_id, causation_id, payload)
  select date_part('epoch', now_at)::int8 / {segment} % {partitions},
    (hashtextextended(coalesce(r.key, r.aggregate_id, r.id), 0) & 9223372036854775807) % {lanes},
    coalesce(r.schema_version, 1), x, nextval('postroom.log_seq'), coalesce(r.occurred_at::timestamptz, now_at), now_at,
    r.available_at::timestamptz, r.id, r.type, r.key, r.aggregate_type, r.aggregate_id, r.tenant,
    nullif(r.content_type, 'application/json'), nullif(r.headers::jsonb, '{}'), nullif(r.attributes::jsonb, '{}'),
    r.correlation_id, r.causation_id, r.payload
  from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) with ordinality
    as r(id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes, correlation_id, causation_id,
      schema_version, occurred_at, available_at, payload, place)
  order by r.place
  returning log.id;
end $$;

-- Null when `idempotency_key` is already there: a repeated request is harmless.
create function postroom.append_once(
  idempotency_key text,
  type text, key text default null, payload json default 'null', id text default null, aggregate_type text default null,
  aggregate_id text default null, tenant text default null, headers jsonb default '{}', attributes jsonb default '{}',
  correlation_id text default null, causation_id text default null, schema_version int default 1,
  occurred_at timestamptz default null, available_at timestamptz default null
) returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  x int8 := pg_current_xact_id()::text::int8;
begin
  if (octet_length(idempotency_key) between 1 and 255) is not true then
    raise exception 'the idempotency key is % bytes, it must be 1 to 255', coalesce(octet_length(idempotency_key), 0)
      using errcode = 'invalid_parameter_value', hint = 'use the id of the request that must not be repeated';
  end if;
  insert into postroom.append_key (idempotency_key) values (idempotency_key) on conflict do nothing;
  if not found then
    return null;
  end if;
  return postroom.append(type, key, payload, id, aggregate_type, aggregate_id, tenant, headers, attributes,
    correlation_id, causation_id, schema_version, occurred_at, available_at);
end $$;

-- For writers that do not lock their aggregate: waits for other transactions that append to the key, or to one of the few that
-- share its row of append_lock.
create function postroom.append_ordered(
  type text, key text default null, payload json default 'null', id text default null, aggregate_type text default null,
  aggregate_id text default null, tenant text default null, headers jsonb default '{}', attributes jsonb default '{}',
  correlation_id text default null, causation_id text default null, schema_version int default 1,
  occurred_at timestamptz default null, available_at timestamptz default null
) returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
  perform from postroom.append_lock where number = hashtextextended(coalesce(key, aggregate_id), 0) & 1023 for update;
  return postroom.append(type, key, payload, id, aggregate_type, aggregate_id, tenant, headers, attributes,
    correlation_id, causation_id, schema_version, occurred_at, available_at);
end $$;

-- True when the event is new to the consumer; in the transaction of its effect.
create function postroom.accept(consumer text, id text) returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if (octet_length($1) between 1 and 255 and octet_length($2) between 1 and 64) is not true then
    raise exception 'accept needs a consumer of 1 to 255 bytes and an event id of 1 to 64'
      using errcode = 'invalid_parameter_value';
  end if;
  insert into postroom.inbox (consumer, id) values ($1, $2) on conflict do nothing;
  return found;
end $$;

revoke all on all functions in schema {schema} from public;
