-- The events of some numbers (?1, a JSON list). By primary key. A payload of more than ?2 bytes stays where it is, and its pages are
-- not read; headers and attributes that are too long to be read are their length.
select l.seq, l.lane, l.id, l.type, l.key, l.aggregate_type, l.aggregate_id, l.tenant, l.content_type, l.correlation_id,
  l.causation_id, l.schema_version, l.occurred_at, l.available_at, l.appended_at,
  case when octet_length(l.headers) <= 524288 then l.headers else cast(octet_length(l.headers) as text) end as headers,
  case when octet_length(l.attributes) <= 524288 then l.attributes else cast(octet_length(l.attributes) as text) end as attributes,
  octet_length(l.payload) as payload_bytes, case when octet_length(l.payload) <= ?2 then l.payload end as payload
from postroom_log l
where l.seq in (select value from json_each(?1))
