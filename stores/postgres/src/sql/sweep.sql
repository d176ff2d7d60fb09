-- Late rows of transactions that have ended ($5, and per lane in $1 to $4: lane, transaction, lo, hwm), in order of their numbers,
-- $6 at most, with payloads of up to $7 bytes. Served by each partition's BRIN on tx, so that it costs the same however many
-- numbers lie between lo and hwm; `offset 0` keeps the planner from walking whole lanes instead. {partitions} are the
-- partitions by name, each with `where tx = any($5)`.
select {columns} from (select * from ({partitions}) p offset 0) l
join unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) as w(lane, x, lo, hwm)
  on w.lane = l.lane and w.x = l.tx and l.seq > w.lo and l.seq <= w.hwm
order by l.seq
limit $6
