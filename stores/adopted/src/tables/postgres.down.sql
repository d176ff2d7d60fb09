-- Removes what step 1 made.
drop table {schema}.adopted_meta;
drop table {schema}.adopted_route;
drop table {schema}.adopted_attempt;
drop table {schema}.sidecar;
drop function {schema}.adopted_json(text);
drop function {schema}.adopted_time(text);
