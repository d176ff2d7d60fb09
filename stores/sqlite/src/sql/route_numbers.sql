-- What a route's status counts. By postroom_delivery_state, postroom_delivery_key and the key of postroom_stat.
select
  (select count(*) from postroom_delivery where route = ?1 and state = 'retrying') as retrying,
  (select count(*) from postroom_delivery where route = ?1 and state = 'dead') as dead,
  (select count(distinct key) from postroom_delivery where route = ?1 and blocks = 1 and state = 'blocked') as blocked_keys,
  coalesce((select delivered from postroom_stat where source = '' and route = ?1 and minute = ?2), 0) as this_minute,
  coalesce((select delivered from postroom_stat where source = '' and route = ?1 and minute = ?2 - 60000000), 0) as minute_before
