-- Forgets transaction ids of the former cluster that this one has yet to give out, or has just given out: one day a
-- reader would take the event for that transaction's. Rows that are visible now need no id any more.
-- Served by the leaves' BRIN on tx.
update postroom.log set tx = 0 where tx >= pg_snapshot_xmin(pg_current_snapshot())::text::int8
