-- Whether an earlier event of this key (?2) blocks the number (?3). Served by postroom_delivery_key.
select exists (select 1 from postroom_delivery where route = ?1 and key = ?2 and blocks = 1 and seq < ?3)
