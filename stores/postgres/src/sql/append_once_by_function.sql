-- Appends one event through the function unless the idempotency key in $17 was used, for roles that may do nothing else; one row
-- when it was appended. See append_once; the content type in $7 is always the usual one, the time in $16 the database's.
select appended.id
from postroom.append_once($17::text, $2::text, $3::text, convert_from($15::bytea, 'UTF8')::json, $1::text, $4::text, $5::text,
  $6::text, coalesce($8::text::jsonb, '{}'), coalesce($9::text::jsonb, '{}'), $10::text, $11::text, $12::int4,
  $13::text::timestamptz, $14::text::timestamptz) as appended(id)
where appended.id is not null and ($7::text is null or $16::text is null or true)
