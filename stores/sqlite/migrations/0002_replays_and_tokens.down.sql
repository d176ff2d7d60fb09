-- Removes what step 2 made. What replays have made due stays due.
drop table postroom_token;
drop table postroom_replay;
