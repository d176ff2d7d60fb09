-- When the next parked delivery becomes due after a time (?2). Served by postroom_delivery_due.
select min(due) from postroom_delivery where route = ?1 and due is not null and due > ?2
