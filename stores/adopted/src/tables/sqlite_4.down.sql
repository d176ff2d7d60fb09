-- Removes what step 4 made. What further routes have still to deliver is gone with it.
drop table postroom_adopted_delivery;
delete from postroom_adopted_attempt where route is not null;
delete from postroom_adopted_route where further;
alter table postroom_adopted_attempt drop column route;
alter table postroom_adopted_route drop column start;
alter table postroom_adopted_route drop column further;
update postroom_adopted_meta set value = '3' where name = 'schema_version';
