-- Rows of one partition that lie above the greatest numbers that a reader knew of it, and not above its positions: $1, $2 and $3 are
-- lanes, those numbers and the positions; up to $4 rows of each lane, with payloads of up to $5 bytes. Served by the
-- partition's (lane, seq).
select r.* from unnest($1::int2[], $2::int8[], $3::int8[]) as n(lane, greatest, hwm) cross join lateral (
  select {columns} from postroom.log_{partition} l
  where l.lane = n.lane and l.seq > n.greatest and l.seq <= n.hwm order by l.seq limit $4) r
