-- Gives an operator the quiet to change deliveries of some lanes: their owners' settles take the same rows `for share`.
-- Always in this order, so that two operators never wait for each other.
select l.lane from postroom.lane l
where (l.route, l.lane) in (select * from unnest($1::text[], $2::int2[]))
order by l.route, l.lane
for no key update
