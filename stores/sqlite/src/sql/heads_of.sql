-- The same as heads_after for given numbers (?2, a JSON array); only earlier events of the key block those.
select l.seq, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
  coalesce(l.key, l.aggregate_id) as ordering_key,
  octet_length(l.payload) + octet_length(l.headers) + 256 as size,
  exists (select 1 from postroom_delivery d
          where d.route = ?1 and d.key = coalesce(l.key, l.aggregate_id) and d.blocks = 1 and d.seq < l.seq) as blocked
from postroom_log l
where l.seq in (select value from json_each(?2))
order by l.seq
