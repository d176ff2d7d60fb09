-- Removes what step 3 made. What is known only of claims that ran out is nothing that step 2 knows.
delete from postroom_sidecar where state = 'retrying' and due is null;
alter table postroom_adopted_route drop column unblocked;
alter table postroom_sidecar drop column abandoned;
update postroom_adopted_meta set value = '2' where name = 'schema_version';
