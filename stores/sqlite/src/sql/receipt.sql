-- Where and when the deliveries of a settle went.
insert into postroom_receipt (route, lane, first, last, ranges, coordinates, at, replay)
values (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)
