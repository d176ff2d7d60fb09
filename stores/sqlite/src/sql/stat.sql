-- Adds to what a route did in one minute.
insert into postroom_stat (route, minute, delivered, retried, dead) values (?1, ?2, ?3, ?4, ?5)
on conflict (source, route, minute) do update set
  delivered = delivered + excluded.delivered, retried = retried + excluded.retried, dead = dead + excluded.dead
