// Workers: against the real relay, and against a stand-in that does what a relay rarely does.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { append, Failure, Worker, WorkerError } from "postroom";

const { DATABASE_URL, WORKER_URL, WORKER_TOKEN } = process.env;

test("events are settled as the handler ends", async () => {
  const client = new pg.Client({ connectionString: DATABASE_URL });
  await client.connect();
  await client.query("begin");
  for (const name of ["ok", "retried", "bad"]) {
    await append(client, { type: "order.noted", key: `key-${name}`, payload: { name }, id: `order-${name}` });
  }
  await client.query("commit");
  await client.end();
  const seen = [];
  const worker = new Worker(WORKER_URL, "mailer", WORKER_TOKEN, async ({ id, attempt, key, data }) => {
    seen.push([id, attempt, key]);
    assert.equal(`order-${data.name}`, id);
    if (seen.length === 4) worker.stop();
    if (id === "order-bad") throw new Failure("no such customer", { permanent: true });
    if (id === "order-retried" && attempt === 1) throw new Failure("mailbox is full", { retryAfterMs: 10 });
  }, { log() {} });
  await worker.run();
  const expected = [["bad", 1], ["ok", 1], ["retried", 1], ["retried", 2]];
  assert.deepEqual(seen.sort(), expected.map(([name, attempt]) => [`order-${name}`, attempt, `key-${name}`]));
});

test("a wrong token and an unknown route end the worker", async () => {
  for (const [route, token, code] of [["mailer", "wrong", /401/], ["nobody", WORKER_TOKEN, /404/]]) {
    const error = await new Worker(WORKER_URL, route, token, () => {}, { waitMs: 10 }).run().catch((error) => error);
    assert(error instanceof WorkerError);
    assert.match(error.message, code);
  }
});

/** Answers requests with what it was given, in order, keeps their bodies, and runs a worker to its end. */
async function against(answers, handler, options) {
  const [requests, logged] = [[], []];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    requests.push([request.url.replace("/api/v1/pull/r", ""), JSON.parse(body)]);
    // A worker that asks for more than was meant fails, rather than for ever.
    const [status, answer] = answers.shift() ?? [404, {}];
    response.writeHead(status).end(JSON.stringify(answer));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const log = (message) => logged.push(message);
  const url = `http://127.0.0.1:${server.address().port}/`;
  const worker = new Worker(url, "r", "t", (event) => handler(event, worker), { log, ...options });
  await worker.run({ signals: false });
  server.closeAllConnections?.();
  server.close();
  return [requests, logged.join("\n")];
}

/** Leased events, with fields that this version does not know. */
const leased = (...names) =>
  names.map((id) => ({ lease: `lease ${id}`, id, type: "t", attempt: 1, route: "r", envelope: {}, processed: [], other: "new" }));

test("a worker waits for a relay that is away and stops when what it has is settled", async () => {
  const handled = [];
  const answers = [[503, {}], [200, leased("a", "b")], [502, {}], [200, { settled: 2, unknown: ["lease b"] }]];
  const [requests] = await against(answers, (event, worker) => {
    worker.stop(); // with `a` in hand and `b` leased
    handled.push(event.id);
  });
  assert.deepEqual(handled, ["a", "b"]);
  const results = { results: [{ lease: "lease a", ok: true }, { lease: "lease b", ok: true }] };
  const asked = { limit: 20, wait: "5000ms", lease: "30000ms" };
  assert.deepEqual(requests, [["", asked], ["", asked], ["/settle", results], ["/settle", results]]);
});

test("an event whose lease has ended is left to the next worker", async () => {
  const handled = [];
  const work = async (event, worker) => {
    worker.stop();
    handled.push(event.id);
    await sleep(2_100); // longer than the lease, which leaves a slow machine time to ask for it
  };
  const answers = [[200, leased("a", "b")], [200, { settled: 0, unknown: ["lease a"] }]];
  const [, logged] = await against(answers, work, { leaseMs: 2_000 });
  assert.deepEqual(handled, ["a"]);
  assert.match(logged, /before their turn/);
  assert.match(logged, /too late/);
});

test("an error of the handler is retried by the route", async () => {
  const [requests] = await against([[200, leased("a")], [200, { settled: 1, unknown: [] }]], (_, worker) => {
    worker.stop();
    throw new TypeError("no email");
  });
  assert.deepEqual(requests[1], ["/settle", { results: [{ lease: "lease a", error: "TypeError: no email" }] }]);
});
