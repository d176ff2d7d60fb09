-- Identity columns whose sequence is behind the greatest value of their table, with that value. A handle lives on in the tries of
-- its delivery. By primary keys; attempt by its own.
select i.sequence, i.greatest
from (values
  (pg_get_serial_sequence('postroom.checkpoint', 'id'), (select max(id) from postroom.checkpoint)),
  (pg_get_serial_sequence('postroom.delivery', 'handle'),
   greatest((select max(handle) from postroom.delivery), (select max(delivery) from postroom.attempt))),
  (pg_get_serial_sequence('postroom.audit', 'number'), (select max(number) from postroom.audit))) as i(sequence, greatest)
where coalesce(pg_sequence_last_value(i.sequence::regclass), 0) < i.greatest
order by i.sequence
