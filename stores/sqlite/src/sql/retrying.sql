-- Whether the route has a delivery that failed and is tried again. Served by postroom_delivery_state.
select exists (select 1 from postroom_delivery where route = ?1 and state = 'retrying')
