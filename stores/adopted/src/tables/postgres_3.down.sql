-- Removes what step 3 made. What is known only of claims that were given back is nothing that step 2 knows.
delete from {schema}.sidecar where state = 'retrying' and due is null;
alter table {schema}.adopted_route drop column unblocked;
alter table {schema}.sidecar drop column held;
alter table {schema}.sidecar drop column excused;
update {schema}.adopted_meta set value = '2' where name = 'schema_version';
