-- Removes what step 3 made. What is known only of claims that were given back is nothing that step 2 knows.
delete from postroom_sidecar where state = 'retrying' and due is null;
alter table postroom_adopted_route drop column unblocked;
alter table postroom_sidecar drop column held;
alter table postroom_sidecar drop column excused;
update postroom_adopted_meta set value = '2' where name = 'schema_version';
