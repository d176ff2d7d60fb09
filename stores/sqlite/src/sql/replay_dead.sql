-- Makes dead letters due again (?1, a JSON array of handles), one every ?3 microseconds after the
-- first ?4. A held one goes on holding its key until it is done.
update postroom_delivery set
  state = 'due', due = ?2 + cast((?4 + j.key) * ?3 as integer), attempts = 0, round = round + 1, since = ?2
from json_each(?1) j
where postroom_delivery.handle = j.value and postroom_delivery.state = 'dead'
