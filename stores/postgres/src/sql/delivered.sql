-- Parked deliveries of some lanes ($2) got through; says what they were. One that is gone was settled before, or discarded
-- meanwhile. By primary key.
delete from postroom.delivery where handle = any($1) and lane = any($2) returning handle, lane, seq, key, blocks, replay, replayed_by
