-- Appends several events in the caller's transaction, numbered in the order given; see append.
with s as materialized (select pg_current_xact_id()::text::int8 as x, coalesce($16::text::timestamptz, clock_timestamp()) as at)
insert into postroom.log (
  partition, lane, schema_version, tx, seq, occurred_at, appended_at, available_at, id, type, key, aggregate_type, aggregate_id,
  tenant, content_type, headers, attributes, correlation_id, causation_id, payload)
select date_part('epoch', s.at)::int8 / {segment} % {partitions},
  (hashtextextended(coalesce(e.key, e.aggregate_id, e.id), 0) & 9223372036854775807) % {lanes},
  e.schema_version, s.x, nextval('postroom.log_seq'), e.occurred_at::timestamptz, s.at, e.available_at::timestamptz,
  e.id, e.type, e.key, e.aggregate_type, e.aggregate_id, e.tenant, e.content_type, e.headers::jsonb, e.attributes::jsonb,
  e.correlation_id, e.causation_id, e.payload
from s, unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::text[], $11::text[], $12::int4[], $13::text[], $14::text[], $15::bytea[]) with ordinality
  as e(id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes, correlation_id, causation_id,
    schema_version, occurred_at, available_at, payload, place)
order by e.place
