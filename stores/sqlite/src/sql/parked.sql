-- A parked delivery as it stands before it is written again. By primary key.
select seq, key, blocks, round, state, replayed_by from postroom_delivery where handle = ?1
