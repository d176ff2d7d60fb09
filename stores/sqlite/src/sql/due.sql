-- Parked deliveries whose time has come, less those already handed out (?3, a JSON array of handles).
-- One range of postroom_delivery_due, however many rows are blocked.
select d.handle, d.seq, d.attempts, d.blocks, d.key,
  octet_length(l.payload) + octet_length(l.headers) + 256 as size
from postroom_delivery d join postroom_log l on l.seq = d.seq
where d.route = ?1 and d.due <= ?2 and d.handle not in (select value from json_each(?3))
order by d.due, d.seq
limit ?4
