-- Appends one event in the caller's transaction. The transaction id is taken before the number is drawn: `s` is
-- evaluated before the select list that has nextval in it. $16 is the time, unless it is the database's.
with s as materialized (select pg_current_xact_id()::text::int8 as x, coalesce($16::text::timestamptz, clock_timestamp()) as at)
insert into postroom.log (
  partition, lane, schema_version, tx, seq, occurred_at, appended_at, available_at, id, type, key, aggregate_type, aggregate_id,
  tenant, content_type, headers, attributes, correlation_id, causation_id, payload)
select date_part('epoch', s.at)::int8 / {segment} % {partitions},
  (hashtextextended(coalesce($3::text, $5::text, $1::text), 0) & 9223372036854775807) % {lanes},
  $12::int4, s.x, nextval('postroom.log_seq'), $13::text::timestamptz, s.at, $14::text::timestamptz,
  $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text::jsonb, $9::text::jsonb,
  $10::text, $11::text, $15::bytea
from s
