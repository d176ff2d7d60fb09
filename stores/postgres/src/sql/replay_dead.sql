-- Makes dead letters due again ($1, handles), with no failed tries. A held one goes on holding its key until it is done.
update postroom.delivery set state = 'due', due = $2, attempts = 0, round = round + 1, since = $2
where handle = any($1::int8[]) and state = 'dead'
