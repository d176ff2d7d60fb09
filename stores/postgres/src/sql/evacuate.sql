-- Copies what open deliveries still need of partition {partition}, one copy per event.
insert into postroom.evacuated
select l.* from (select distinct lane, seq from postroom.delivery) d cross join lateral (
  select * from postroom.log_{partition} l where l.lane = d.lane and l.seq = d.seq) l
on conflict do nothing
