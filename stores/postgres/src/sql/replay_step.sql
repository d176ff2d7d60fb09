-- Moves a replay on from where it was found, if it still stands there and runs.
update postroom.replay set cursor = $3, done = done + $4, stepped_at = $5, state = $6, ended_at = $7
where id = $1 and cursor = $2 and state = 'running'
