-- Parked deliveries failed again; says what they were. One that an operator gave up meanwhile stays dead; one that kept
-- nobody's order does not begin to. $1 is the time. By primary key.
with f as materialized (
  select * from unnest($2::int8[], $3::text[], $4::bool[], $5::timestamptz[], $6::int4[], $7::text[], $8::text[])
    as f(handle, state, blocks, due, attempts, code, error)),
old as materialized (
  select d.handle, d.seq, d.key, d.blocks, d.round, d.replayed_by, d.state = 'dead' as dead
  from postroom.delivery d where d.handle in (select handle from f)),
new as (
  update postroom.delivery d set
    state = f.state, blocks = d.blocks and f.blocks, due = f.due, attempts = f.attempts, code = f.code, error = f.error, since = $1
  from f where d.handle = f.handle and d.state <> 'dead')
select * from old
