-- A parked delivery failed again. One that an operator gave up meanwhile stays dead; one that kept nobody's order
-- does not begin to. By primary key.
update postroom_delivery set
  state = ?2, blocks = blocks and ?3, due = ?4, attempts = ?5, code = ?6, error = ?7, since = ?8
where handle = ?1 and state <> 'dead'
