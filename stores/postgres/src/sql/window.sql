-- A part of read.sql. Far from the end, lanes that are about equally far ($10) are read together, above $11 and up to $12, each
-- above its own hwm ($13, by lane): their rows lie beside each other on the same pages, and going through the index lane by
-- lane would visit every page for every lane. Served by (lane, seq) as a bitmap.
union all
select {columns} from ({partitions}) l
where l.lane = any($10::int2[]) and l.seq > $11 and l.seq <= $12 and l.seq > ($13::int8[])[l.lane + 1]
  and (select count(*) from late) <= 2000
