/** Assertions for your tests: what the open transaction has appended. The role of the test must be able to read the log. */

import { AssertionError } from "node:assert";

import { quoted, refuseWithoutTransaction, type Options, type Queryable } from "./outbox";

/** Event that the transaction has appended. */
export interface Appended {
  id: string;
  type: string;
  key: string | null;
}

/** Further conditions on an event. */
export interface Wanted extends Options {
  key?: string;
  /** Members that the payload has at least, as `@>` of PostgreSQL compares them. */
  payloadContains?: unknown;
}

/**
 * Asserts that the client's transaction has appended an event of this type, and returns the first one. The message of the
 * failure lists types and keys, without payloads.
 */
export async function assertAppended(client: Queryable, type: string, wanted: Wanted = {}): Promise<Appended> {
  const rows = await appended(client, type, wanted);
  const found = rows.find((row) => row.wanted);
  if (found === undefined) throw new AssertionError({ message: `no such "${type}" was appended; there is ${list(rows)}` });
  return { id: found.id, type: found.type, key: found.key };
}

/** Asserts that the client's transaction has appended no event of this type. */
export async function assertNotAppended(client: Queryable, type: string, wanted: Wanted = {}): Promise<void> {
  const rows = await appended(client, type, wanted);
  if (rows.some((row) => row.wanted)) throw new AssertionError({ message: `"${type}" was appended; there is ${list(rows)}` });
}

type Row = Appended & { wanted: boolean };

async function appended(client: Queryable, type: string, wanted: Wanted): Promise<Row[]> {
  refuseWithoutTransaction(client);
  const part = wanted.payloadContains === undefined ? null : JSON.stringify(wanted.payloadContains);
  const sql = `with wanted as (
      select cast($1 as text) as type, cast($2 as text) as key, cast(cast($3 as text) as jsonb) as part)
    select log.id, log.type, coalesce(log.key, log.aggregate_id) as key, log.type = wanted.type
      and (wanted.key is null or wanted.key = coalesce(log.key, log.aggregate_id))
      and (wanted.part is null or case when log.content_type is null
        then cast(convert_from(log.payload, 'UTF8') as jsonb) @> wanted.part else false end) as wanted
    from ${quoted(wanted.schema)}.log, wanted
    where log.tx = cast(cast(pg_current_xact_id_if_assigned() as text) as bigint) order by log.seq`;
  return (await client.query(sql, [type, wanted.key ?? null, part])).rows;
}

function list(rows: Row[]): string {
  return rows.map((row) => (row.key === null ? row.type : `${row.type} (key ${row.key})`)).join(", ") || "nothing";
}
