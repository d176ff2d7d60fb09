-- The lane's owner writes its position and counts; what was recovered or replayed only ever grows by rows that really went.
update postroom_checkpoint set
  writes = ?2, hwm = ?3, unsettled = ?4, seen = ?5, delivered = ?6, filtered = ?7, parked = ?8, recovered = recovered + ?9,
  replayed = replayed + ?10
where route = ?1 and lane = 0
