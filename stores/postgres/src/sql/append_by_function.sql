-- Appends several events in order through the function, for roles that may do nothing else; see append_many.
select postroom.append_bytes(e.type, e.key, e.payload, coalesce(e.content_type, 'application/json'), e.id, e.aggregate_type,
  e.aggregate_id, e.tenant, coalesce(e.headers::jsonb, '{}'), coalesce(e.attributes::jsonb, '{}'), e.correlation_id,
  e.causation_id, e.schema_version, e.occurred_at::timestamptz, e.available_at::timestamptz)
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::text[], $11::text[], $12::int4[], $13::text[], $14::text[], $15::bytea[]) with ordinality
  as e(id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes, correlation_id, causation_id,
    schema_version, occurred_at, available_at, payload, place)
where $16::text is null or true
order by e.place
