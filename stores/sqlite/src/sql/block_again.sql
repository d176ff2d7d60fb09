-- Puts the followers of a key that were due back behind the one that failed. Served by postroom_delivery_key.
update postroom_delivery set state = 'blocked', due = null, since = ?4
where route = ?1 and key = ?2 and blocks = 1 and state = 'due' and seq > ?3
