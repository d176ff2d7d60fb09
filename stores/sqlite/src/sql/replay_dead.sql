-- Makes dead letters due again (?1, a JSON array of handles), with no failed tries. A held one goes on holding its key
-- until it is done.
update postroom_delivery set state = 'due', due = ?2, attempts = 0, round = round + 1, since = ?2
where handle in (select value from json_each(?1)) and state = 'dead'
