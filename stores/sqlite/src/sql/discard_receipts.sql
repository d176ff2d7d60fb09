-- Says of each delivery that is about to be discarded (?1, a JSON array of handles) that it was.
insert into postroom_receipt (route, lane, first, last, ranges, discarded, at, replay)
select route, 0, seq, seq, json_array(json_array(seq, seq)), 1, ?2, replayed_by
from postroom_delivery where handle in (select value from json_each(?1))
