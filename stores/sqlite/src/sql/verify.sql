-- How many rows of the log are numbered above ?2 and up to ?3; with the number of pruned ones, the base of the route (?1) and the first number
-- there is. A range of the primary key.
select (select count(*) from postroom_log where seq > ?2 and seq <= ?3) as rows,
  (select value from postroom_meta where name = 'pruned') as pruned,
  (select base from postroom_checkpoint where route = ?1 and lane = 0) as base,
  (select coalesce(min(seq), 1) from postroom_log) as first
