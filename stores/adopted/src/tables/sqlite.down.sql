-- Removes what step 1 made.
drop table postroom_adopted_meta;
drop table postroom_adopted_route;
drop table postroom_adopted_attempt;
drop table postroom_sidecar;
