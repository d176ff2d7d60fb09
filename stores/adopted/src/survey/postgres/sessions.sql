-- Other sessions that change rows of a table, or did within the last minute: who, and what they do. `$2` is its name,
-- which stands in a statement by itself, not as a part of another name. What a statement says stays on the server: it may hold anybody's data.
with others as (
  select a.*, exists (
    select 1 from pg_locks l
    where l.pid = a.pid and l.relation = to_regclass($1) and l.mode in ('RowShareLock', 'RowExclusiveLock') and l.granted
  ) as holds
  from pg_stat_activity a
  where a.datname = current_database() and a.pid <> pg_backend_pid() and a.application_name <> 'postroom'
)
select pid::text, coalesce(application_name, ''), coalesce(usename::text, ''), coalesce(client_addr::text, ''), what
from (
  select o.*, case
    when o.query ilike '%for update%' or o.query ilike '%for no key update%' then 'locks rows'
    when o.query ~* '\mupdate\M' then 'updates rows'
    when o.query ~* '\mdelete\M' then 'deletes rows'
  end as what
  from others o
  where o.holds or (
    case when $2 ~ '^\w+$' then o.query ~* ('\m' || $2 || '\M') else strpos(o.query, $2) > 0 end
    and (o.state <> 'idle' or o.state_change > now() - interval '1 minute')
  )
) seen
where what is not null
order by pid
limit 5
