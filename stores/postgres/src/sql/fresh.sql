-- What some lanes of a route ($1) have yet to read, without payloads: rows that pending transactions ($4 to $6) have
-- committed since, then rows after each lane's hwm ($2, $3), at most $7 per lane and $8 in all. Served by each partition's
-- (lane, seq); whether an earlier event of the key blocks is one probe of delivery_key.
select f.*, exists (
    select from postroom.delivery d where d.route = $1 and d.key = f.ordering_key and d.blocks and d.seq < f.seq) as blocked
from (
  select r.*, true as late
  from unnest($4::int2[], $5::int8[], $6::int8[]) as p(lane, x, lo)
  join unnest($2::int2[], $3::int8[]) as i(lane, hwm) using (lane)
  cross join lateral (
    select l.lane, l.seq, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
      coalesce(l.key, l.aggregate_id) as ordering_key
    from postroom.log l
    where l.lane = p.lane and l.seq > p.lo and l.seq <= least(i.hwm, p.lo + 50000) and l.tx = p.x offset 0) r
  where pg_visible_in_snapshot(p.x::text::xid8, pg_current_snapshot())
  union all
  select r.*, false
  from unnest($2::int2[], $3::int8[]) as i(lane, hwm) cross join lateral (
    select l.lane, l.seq, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
      coalesce(l.key, l.aggregate_id) as ordering_key
    from postroom.log l where l.lane = i.lane and l.seq > i.hwm order by l.seq limit $7) r
  limit $8) f
