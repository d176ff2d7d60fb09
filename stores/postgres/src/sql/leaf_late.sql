-- Whether a row of leaf {leaf} was committed after it was counted under the snapshot $1. Served by the leaf's BRIN on tx.
select exists (
  select from postroom.log_{leaf}
  where tx >= pg_snapshot_xmin($1::text::pg_snapshot)::text::int8
    and not pg_visible_in_snapshot(tx::text::xid8, $1::text::pg_snapshot))
