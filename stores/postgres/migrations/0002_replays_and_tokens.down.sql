-- Removes what step 2 made. What replays have made due stays due.
drop table postroom.token;
drop table postroom.replay;
