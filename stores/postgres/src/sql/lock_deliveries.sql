-- Gives an operator the quiet to change deliveries ($1, handles): the settles of their lanes' owners take the same rows `for share`.
-- Always in this order, so that two operators never wait for each other.
select l.lane from postroom.lane l
where (l.route, l.lane) in (select d.route, d.lane from postroom.delivery d where d.handle = any($1::int8[]))
order by l.route, l.lane
for no key update
