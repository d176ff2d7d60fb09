-- The id of the first event of a key that the one numbered $3 waits for. Served by delivery_key.
select l.id from postroom.delivery d
cross join lateral (select e.id from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l
where d.route = $1 and d.key = $2 and d.blocks and d.seq < $3
order by d.seq
limit 1
