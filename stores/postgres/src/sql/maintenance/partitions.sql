-- The partitions of the log with their sizes, and which one takes events at $1.
select substring(c.relname from '[0-9]+$')::int4 as partition,
  greatest(c.reltuples::int8, s.n_live_tup, 0) as estimate,
  pg_relation_size(c.oid) as heap,
  pg_total_relation_size(c.oid) as bytes,
  has_table_privilege(c.oid, 'select') as readable,
  substring(c.relname from '[0-9]+$')::int8 = extract(epoch from coalesce($1, clock_timestamp()))::int8
    / (select value::int8 from postroom.meta where name = 'segment')
    % (select value::int8 from postroom.meta where name = 'partitions') as current
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
left join pg_stat_all_tables s on s.relid = c.oid
where i.inhparent = to_regclass('postroom.log')
order by 1
