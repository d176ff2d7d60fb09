-- Appends one event through the function unless the idempotency key in $17 was used, for roles that may do nothing else; one row
-- when it was appended. See append_once; the time in $16 is the database's.
select postroom.append_rows(array[$1::text], array[$2::text], array[$3::text], array[$4::text], array[$5::text], array[$6::text],
  array[$7::text], array[$8::text], array[$9::text], array[$10::text], array[$11::text], array[$12::int4], array[$13::text],
  array[$14::text], array[$15::bytea], $17::text)
where $16::text is null or true
