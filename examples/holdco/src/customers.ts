// Customers: they order lamps and pay, a few times a second, for as long as the service runs.
import { setTimeout as sleep } from "node:timers/promises";
import { prisma } from "./prisma";

const URL = `http://${process.env.LISTEN ?? "127.0.0.1:8000"}/v1/orders`;
const PER_SECOND = Number(process.env.ORDERS_PER_SECOND ?? "3");

// Asks until there is an answer: an order number and an open order make a repeated request harmless.
async function post(url: string, body: object): Promise<void> {
  for (;;) {
    const answer = await fetch(url, { method: "POST", body: JSON.stringify(body) }).catch(() => undefined);
    if (answer && answer.status !== 503) return;
    await sleep(200);
  }
}

async function main() {
  await prisma.stock.createMany({ data: [{ sku: "lamp", pieces: 1_000_000 }], skipDuplicates: true });
  const run = Date.now().toString(36);
  for (let number = 1; ; number++) {
    const order_no = `ORD-${run}-${number}`;
    const subsidiary = number % 2 === 0 ? "lagos" : "accra";
    await post(URL, { subsidiary, order_no, total_amount: "125000.00", sku: "lamp", pieces: 1 });
    // One payment in five fails.
    await post(`${URL}/${order_no}/payments`, { outcome: number % 5 === 0 ? "failed" : "captured" });
    await sleep(1000 / PER_SECOND);
  }
}

process.on("SIGTERM", () => process.exit());
main();
