-- A part of read.sql. Far from the end, lanes that are about equally far ($11) are read together, above $12 and up to $13, each
-- above its own hwm ($14, by lane): their rows lie beside each other on the same pages, and going through the index lane by
-- lane would visit every page for every lane. Served by (lane, seq) as a bitmap.
union all
select {columns} from ({leaves}) l
where l.lane = any($11::int2[]) and l.seq > $12 and l.seq <= $13 and l.seq > ($14::int8[])[l.lane + 1]
  and (select count(*) from late) <= 2000
