-- Copies what open deliveries still need of leaf {leaf}, one copy per event.
insert into postroom.evacuated
select l.* from (select distinct lane, seq from postroom.delivery) d cross join lateral (
  select * from postroom.log_{leaf} l where l.lane = d.lane and l.seq = d.seq) l
on conflict do nothing
