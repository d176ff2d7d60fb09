/** Append and accept in a transaction that you own. Begin, commit and rollback are yours. */

/** Client whose transaction is open: one of node-postgres, or anything that runs a statement with parameters. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rows: any[] }>;
}

/** Event to append. */
export interface Event {
  type: string;
  /** Decides the order: events with the same key are delivered one after the other. */
  key?: string | null;
  /** Value that is encoded as JSON. Bytes are JSON text kept byte for byte, or anything else if `contentType` says what. */
  payload?: unknown;
  contentType?: string;
  id?: string;
  aggregateType?: string;
  aggregateId?: string;
  tenant?: string;
  headers?: Record<string, string>;
  attributes?: Record<string, unknown>;
  correlationId?: string;
  causationId?: string;
  schemaVersion?: number;
  occurredAt?: Date;
  availableAt?: Date;
}

/** Options of every call. */
export interface Options {
  /** Schema of the store's tables; `postroom` by default. */
  schema?: string;
}

/** Error for a client that has no transaction that the event could commit with. */
export class NotInTransaction extends Error {
  constructor(what: string) {
    super(`${what}: begin a transaction on one client, so that event and data commit together`);
    this.name = "NotInTransaction";
  }
}

/** Appends an event in the client's transaction and returns its id. It is delivered if and only if the transaction commits. */
export async function append(client: Queryable, event: Event, options: Options = {}): Promise<string> {
  const [name, first] = event.contentType === undefined ? ["append", []] : ["append_bytes", [text("content_type", event.contentType)]];
  return (await call(client, name, [...first, ...parameters(event)], options))[0];
}

/** Appends an event unless this idempotency key was used before; returns its id, or `null` if it was. */
export async function appendOnce(
  client: Queryable,
  idempotencyKey: string,
  event: Event,
  options: Options = {},
): Promise<string | null> {
  jsonOnly("appendOnce", event);
  return (await call(client, "append_once", [text("idempotency_key", idempotencyKey), ...parameters(event)], options))[0];
}

/** Appends several events in this order, with one statement; returns their ids. */
export function appendMany(client: Queryable, events: Iterable<Event>, options: Options = {}): Promise<string[]> {
  const list = `[${Array.from(events, listed).join(",")}]`;
  return call(client, "append_many", [["events", "cast(cast($ as text) as json)", list]], options);
}

/**
 * Records in the client's transaction that this consumer processes this event. Returns true if the event is new to the
 * consumer, and false if it was accepted before: then there is nothing to do.
 */
export async function accept(client: Queryable, consumer: string, id: string, options: Options = {}): Promise<boolean> {
  return (await call(client, "accept", [text("consumer", consumer), text("id", id)], options))[0];
}

/** Name, cast and value of a parameter. */
type Parameter = [name: string, cast: string, value: unknown];

const text = (name: string, value: unknown): Parameter => [name, "cast($ as text)", value ?? null];

function parameters(event: Event): Parameter[] {
  const bytes = event.contentType !== undefined;
  if (bytes && !(event.payload instanceof Uint8Array)) {
    throw new TypeError(`a payload with contentType is a Buffer or Uint8Array, not ${typeof event.payload}`);
  }
  const fields = columns(event);
  return [
    text("type", fields.type),
    text("key", fields.key),
    bytes ? ["payload", "cast($ as bytea)", event.payload] : ["payload", "cast(cast($ as text) as json)", json(event.payload)],
    text("id", fields.id),
    text("aggregate_type", fields.aggregate_type),
    text("aggregate_id", fields.aggregate_id),
    text("tenant", fields.tenant),
    // Text first: a driver's own way with objects would encode it a second time.
    ["headers", "cast(cast($ as text) as jsonb)", JSON.stringify(fields.headers)],
    ["attributes", "cast(cast($ as text) as jsonb)", JSON.stringify(fields.attributes)],
    text("correlation_id", fields.correlation_id),
    text("causation_id", fields.causation_id),
    ["schema_version", "cast($ as int)", fields.schema_version],
    ["occurred_at", "cast(cast($ as text) as timestamptz)", fields.occurred_at],
    ["available_at", "cast(cast($ as text) as timestamptz)", fields.available_at],
  ];
}

/** The fields under the names of the SQL functions, without the payload. */
function columns(event: Event) {
  return {
    type: event.type,
    key: event.key ?? null,
    id: event.id ?? null,
    aggregate_type: event.aggregateType ?? null,
    aggregate_id: event.aggregateId ?? null,
    tenant: event.tenant ?? null,
    headers: event.headers ?? {},
    attributes: event.attributes ?? {},
    correlation_id: event.correlationId ?? null,
    causation_id: event.causationId ?? null,
    schema_version: event.schemaVersion ?? 1,
    occurred_at: event.occurredAt?.toISOString() ?? null,
    available_at: event.availableAt?.toISOString() ?? null,
  };
}

function listed(event: Event): string {
  jsonOnly("appendMany", event);
  const payload = json(event.payload);
  // A text that is not one whole value would become part of the list.
  if (event.payload instanceof Uint8Array) JSON.parse(payload);
  return `${JSON.stringify(columns(event)).slice(0, -1)},"payload":${payload}}`;
}

function json(payload: unknown): string {
  if (payload instanceof Uint8Array) return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
  const encoded = JSON.stringify(payload ?? null);
  if (encoded === undefined) throw new TypeError(`a ${typeof payload} is no JSON payload`);
  return encoded;
}

function jsonOnly(name: string, event: Event): void {
  if (event.contentType !== undefined) throw new TypeError(`${name} takes JSON payloads only: leave contentType out`);
}

async function call(client: Queryable, name: string, parameters: Parameter[], options: Options): Promise<any[]> {
  refuseWithoutTransaction(client);
  const given = parameters.map(([name, cast], at) => `${name} => ${cast.replace("$", `$${at + 1}`)}`);
  const { rows } = await client.query(
    `select ${quoted(options.schema)}.${name}(${given.join(", ")}) as result`,
    parameters.map(([, , value]) => value),
  );
  return rows.map((row) => row.result);
}

/** Finds out what node-postgres tells: a pool runs each statement anywhere, and newer clients know their transaction. */
export function refuseWithoutTransaction(client: Queryable & { totalCount?: unknown; getTransactionStatus?: unknown }): void {
  if (typeof client.totalCount === "number") throw new NotInTransaction("a pool has no transaction");
  if (typeof client.getTransactionStatus === "function" && client.getTransactionStatus() === "I") {
    throw new NotInTransaction("the client has no open transaction");
  }
}

/** The schema as an identifier. */
export function quoted(schema = "postroom"): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(schema)) throw new TypeError(`${JSON.stringify(schema)} is no name of a schema: use letters, digits and _`);
  return `"${schema}"`;
}
