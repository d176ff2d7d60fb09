// Append and accept, with node-postgres and Drizzle.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { accept, append, appendMany, appendOnce, NotInTransaction } from "postroom";
import { assertAppended, assertNotAppended } from "postroom/testing";

const config = { connectionString: process.env.DATABASE_URL };
let client;

before(async () => {
  client = new pg.Client(config);
  await client.connect();
});

after(() => client.end());

/** Runs a test in a transaction that is rolled back. */
async function rolledBack(work) {
  await client.query("begin");
  try {
    return await work();
  } finally {
    await client.query("rollback");
  }
}

const stored = async (id) => (await client.query("select * from postroom.log where id = $1", [id])).rows[0];

test("the event is there if and only if the transaction commits", async () => {
  const gone = await rolledBack(() => append(client, { type: "shop.opened" }));
  await client.query("begin");
  const kept = await append(client, { type: "shop.opened", key: "shop-1", payload: { name: "Ä" } });
  assert.equal(await accept(client, "books", kept), true);
  assert.equal(await accept(client, "books", kept), false);
  await client.query("commit");
  assert.equal(await stored(gone), undefined);
  assert.equal((await stored(kept)).payload.toString(), '{"name":"Ä"}');
});

test("a client without a transaction is refused", async () => {
  const pool = new pg.Pool(config);
  await assert.rejects(append(pool, { type: "shop.opened" }), /a pool has no transaction: begin/);
  await pool.end();
  const idle = { getTransactionStatus: () => "I", query: () => assert.fail("a statement was run") };
  await assert.rejects(accept(idle, "books", "e-1"), NotInTransaction);
});

test("every field arrives", async () => {
  const when = new Date("2026-11-01T09:30:00Z");
  const event = {
    type: "shop.opened",
    key: "k",
    payload: { a: 1 },
    id: "e-1",
    aggregateType: "shop",
    aggregateId: "shop-1",
    tenant: "acme",
    headers: { traceparent: "00-1" },
    attributes: { station_id: 12 },
    correlationId: "request-31",
    causationId: "e-0",
    schemaVersion: 2,
    occurredAt: when,
    availableAt: when,
  };
  const appends = [
    () => append(client, event),
    () => appendOnce(client, "request-31", event),
    async () => (await appendMany(client, [event]))[0],
  ];
  for (const one of appends) {
    await rolledBack(async () => {
      assert.equal(await one(), "e-1");
      const row = await stored("e-1");
      for (const [name, value] of Object.entries(event)) {
        const column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
        assert.deepEqual(name === "payload" ? JSON.parse(row.payload) : row[column], value, name);
      }
    });
  }
});

test("payloads are kept byte for byte", () =>
  rolledBack(async () => {
    const text = Buffer.from('{"b":1,  "a" :"é"}');
    const one = await append(client, { type: "shop.opened", payload: text });
    const [two, empty] = await appendMany(client, [{ type: "shop.opened", payload: text }, { type: "shop.opened" }]);
    const pdf = await append(client, { type: "label.printed", payload: Buffer.from("%PDF\0"), contentType: "application/pdf" });
    assert.deepEqual((await stored(one)).payload, text);
    assert.deepEqual((await stored(two)).payload, text);
    assert.equal((await stored(empty)).payload.toString(), "null");
    assert.deepEqual((await stored(pdf)).payload, Buffer.from("%PDF\0"));
  }));

test("an idempotency key appends once", () =>
  rolledBack(async () => {
    assert.equal(typeof (await appendOnce(client, "request-1", { type: "shop.opened" })), "string");
    assert.equal(await appendOnce(client, "request-1", { type: "shop.opened" }), null);
  }));

test("mistakes are named", () =>
  rolledBack(async () => {
    // A payload that is not one JSON value cannot smuggle an event in.
    const smuggled = { type: "shop.opened", payload: Buffer.from('1}, {"type": "shop.closed"') };
    assert.throws(() => appendMany(client, [smuggled]), SyntaxError);
    await assert.rejects(append(client, { type: "a", payload: "text", contentType: "text/plain" }), /Buffer/);
    await assert.rejects(append(client, { type: "a", payload: () => 1 }), /function is no JSON/);
    await assert.rejects(append(client, { type: "a" }, { schema: 'a"b' }), /name of a schema/);
    await assert.rejects(append(client, { type: "a", key: "a\nb" }), { code: "22023", message: "event key contains a control character" });
  }));

test("assertions see only the open transaction and show no payload", () =>
  rolledBack(async () => {
    await assertNotAppended(client, "shop.opened");
    await append(client, { type: "shop.moved", key: "shop-1", payload: { secret: [1, 2], deep: { x: 1, y: 2 } } });
    const { key } = await assertAppended(client, "shop.moved", { key: "shop-1", payloadContains: { deep: { x: 1 } } });
    assert.equal(key, "shop-1");
    const message = 'no such "shop.moved" was appended; there is shop.moved (key shop-1)';
    await assert.rejects(assertAppended(client, "shop.moved", { key: "shop-2" }), { name: "AssertionError", message });
    await assert.rejects(assertAppended(client, "shop.moved", { payloadContains: { deep: { x: 2 } } }), { message });
    await assert.rejects(assertNotAppended(client, "shop.moved"), /was appended/);
  }));

test("the recipe for Drizzle appends in its transaction", async () => {
  const queryable = (tx) => ({
    query: (text, values) => {
      const parts = text.split(/\$\d+/).map((part) => sql.raw(part));
      return tx.execute(sql.join(parts.flatMap((part, at) => (at < values.length ? [part, sql`${values[at]}`] : [part]))));
    },
  });
  const db = drizzle(client);
  const kept = await db.transaction((tx) => append(queryable(tx), { type: "shop.opened", key: "shop-1" }));
  assert.equal((await stored(kept)).key, "shop-1");
  let gone;
  const failed = db.transaction(async (tx) => {
    gone = await append(queryable(tx), { type: "shop.opened" });
    tx.rollback();
  });
  await assert.rejects(failed);
  assert.equal(await stored(gone), undefined);
});

test("a CommonJS program requires the package", () => {
  const require = createRequire(import.meta.url);
  assert.equal(require("postroom").append, append);
});
