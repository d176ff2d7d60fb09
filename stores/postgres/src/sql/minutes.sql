-- What a route ($1), or every route, did per minute from $2 on. Served by the primary key.
select route, minute, delivered, retried, dead from postroom.stat
where ($1::text is null or route = $1) and minute >= $2
order by route, minute
