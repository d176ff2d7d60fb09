-- Step 3: claims in columns that did not run out, and when keys were let go on by somebody who is no relay.

-- How many claims of a row were given back untried or ended with a verdict. The others, of those that its column counts, ran out.
alter table {schema}.sidecar add column excused int4 not null default 0;

-- Whether a dead row looks pending in its own table: its dead letter is nowhere else, and it must not be read again.
alter table {schema}.sidecar add column held int4 not null default 0;

-- How often an operator, or retention, has let keys go on. Relays that have walked past their rows begin anew.
alter table {schema}.adopted_route add column unblocked int8 not null default 0;

update {schema}.adopted_meta set value = '3' where name = 'schema_version';
