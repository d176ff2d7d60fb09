-- Removes what step 4 made. What further routes have still to deliver is gone with it.
drop table {schema}.adopted_delivery;
delete from {schema}.adopted_attempt where route is not null;
delete from {schema}.adopted_route where further;
alter table {schema}.adopted_attempt drop column route;
alter table {schema}.adopted_route drop column start;
alter table {schema}.adopted_route drop column further;
update {schema}.adopted_meta set value = '3' where name = 'schema_version';
