-- Appends several events in order through the function, for roles that may do nothing else; see append_many. The time in $16 is
-- the database's.
select postroom.append_rows($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::text[], $10::text[], $11::text[], $12::int4[], $13::text[], $14::text[], $15::bytea[])
where $16::text is null or true
