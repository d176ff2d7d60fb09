-- Begins a step: whether a replay runs and stands where it was found. The second of two waits here, and finds that it does not.
select 1 from postroom.replay where id = $1 and cursor = $2 and state = 'running' for update
