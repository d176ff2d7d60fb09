-- Events that a route ($1) has not read yet or is sending for the first time, and that have no row among deliveries: after
-- number $2, at most $3. One walk of each partition's (lane, seq) per lane, from the lane's first row without an outcome.
select e.* from postroom.lane n
cross join lateral (
  select c.hwm, c.pending, c.los, c.unsettled from postroom.checkpoint c
  where c.route = n.route and c.lane = n.lane order by c.term desc, c.id desc limit 1) c
cross join lateral (
  select l.seq, l.id, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
    coalesce(l.key, l.aggregate_id) as ordering_key,
    exists (select from postroom.delivery d where d.route = n.route and d.key = coalesce(l.key, l.aggregate_id) and d.blocks
      and d.seq < l.seq) as blocked
  from postroom.log l
  where l.lane = n.lane
    and l.seq > greatest($2, least(c.hwm, lower(c.unsettled) - 1, (select min(lo) from unnest(c.los) as lo)))
    and (l.seq > c.hwm or l.tx = any(c.pending) or c.unsettled @> l.seq)
    and not exists (select from postroom.delivery d where d.seq = l.seq and d.route = n.route and not d.replay)
    {selected}
  order by l.seq limit $3) e
where n.route = $1
order by e.seq limit $3
