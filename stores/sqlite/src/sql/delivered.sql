-- A parked delivery got through; says what it was. One that is gone was settled before, or discarded meanwhile. By primary key.
delete from postroom_delivery where handle = ?1 returning seq, key, blocks, replay, replayed_by
