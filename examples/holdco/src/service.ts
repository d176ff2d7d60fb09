// The back office: POST /v1/orders, POST /v1/orders/NO/payments, and a page of its numbers.
//
// Its events reach RabbitMQ by a relay beside it, `postroom relay run --preset holdco`.
import { createServer, IncomingMessage } from "node:http";
import { NewOrder, pay, place, Refused } from "./orders";
import { page } from "./page";

// The tenant of a request comes from its login; here there is one group with two subsidiaries.
const GROUP = "11111111-1111-4111-8111-111111111111";
const SUBSIDIARIES: Record<string, string> = {
  lagos: "22222222-2222-4222-8222-222222222222",
  accra: "33333333-3333-4333-8333-333333333333",
};

async function answer(request: IncomingMessage): Promise<[number, object]> {
  const path = (request.url ?? "").split("/").slice(1);
  const body = JSON.parse(await read(request));
  if (request.method === "POST" && path.join("/") === "v1/orders") {
    const subsidiaryId = SUBSIDIARIES[body.subsidiary];
    const { order_no, total_amount, sku, pieces } = body;
    if (!subsidiaryId || !order_no || !total_amount || !sku || !Number.isInteger(pieces)) {
      return [400, { error: "an order has subsidiary, order_no, total_amount, sku and pieces" }];
    }
    const order: NewOrder = { groupId: GROUP, subsidiaryId, order_no, total_amount, sku, pieces };
    const isNew = await place(order);
    return [isNew ? 201 : 200, { order_no, placed: isNew ? "now" : "before" }];
  }
  if (request.method === "POST" && path.length === 4 && path[1] === "orders" && path[3] === "payments") {
    if (body.outcome !== "captured" && body.outcome !== "failed") return [400, { error: "outcome is captured or failed" }];
    const done = await pay(path[2], body.outcome);
    return [done ? 201 : 409, { order_no: path[2], payment: done ? body.outcome : "not open" }];
  }
  return [404, { error: "no such path" }];
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += part;
  return text;
}

const server = createServer((request, response) => {
  if (request.method === "GET") {
    page().then(
      (html) => response.setHeader("content-type", "text/html; charset=utf-8").end(html),
      (error) => response.writeHead(503).end(`${error}\n`),
    );
    return;
  }
  answer(request).then(
    ([status, body]) => response.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`),
    (error) => {
      const status = error instanceof Refused ? 422 : error instanceof SyntaxError ? 400 : 503;
      if (status === 503) console.error(error);
      response.writeHead(status).end(`${JSON.stringify({ error: status === 503 ? "try again" : error.message })}\n`);
    },
  );
});

const [host, port] = (process.env.LISTEN ?? "127.0.0.1:8000").split(":");
server.listen(Number(port), host);
process.on("SIGTERM", () => process.exit());
