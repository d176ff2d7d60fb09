-- The next numbers after a position with all that decides about them, without payloads. By primary key; whether an
-- earlier event of the key blocks is one probe of postroom_delivery_key.
select l.seq, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
  coalesce(l.key, l.aggregate_id) as ordering_key,
  octet_length(l.payload) + octet_length(l.headers) + 256 as size,
  exists (select 1 from postroom_delivery d
          where d.route = ?1 and d.key = coalesce(l.key, l.aggregate_id) and d.blocks = 1) as blocked
from postroom_log l
where l.seq > ?2
order by l.seq
limit ?3
