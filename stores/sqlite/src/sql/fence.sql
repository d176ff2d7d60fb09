-- Whether the lane is still ours under this term; it stays so until the transaction ends. By primary key.
select 1 from postroom_lane where route = ?1 and lane = 0 and holder = ?2 and term = ?3
