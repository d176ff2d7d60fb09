-- Whether partition {partition} of the log is another one than was counted under the snapshot $1: a row was committed since, or somebody else has
-- truncated it meanwhile. Served by the partition's BRIN on tx.
select not exists (select from postroom.log_{partition}) or exists (
  select from postroom.log_{partition}
  where tx >= pg_snapshot_xmin($1::text::pg_snapshot)::text::int8
    and not pg_visible_in_snapshot(tx::text::xid8, $1::text::pg_snapshot))
