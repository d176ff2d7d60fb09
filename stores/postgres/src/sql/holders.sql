-- Keeps the relays that hold these lanes ($2) from renewing until the transaction ends: one that does meanwhile would look at its
-- lanes before they are gone, and go on with them. Always in this order, before the lanes themselves.
select from postroom.relay r
where r.boot <> $3
  and r.boot in (select l.holder from postroom.lane l where l.route = $1 and l.lane = any($2))
order by r.boot
for share
