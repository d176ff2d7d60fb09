// Compiled, never run: the package's types fit those of its users.
import { Client, Pool, type PoolClient } from "pg";
import { accept, append, appendMany, appendOnce, Failure, Worker, type Event, type Incoming } from "postroom";
import { assertAppended } from "postroom/testing";
import { verify } from "postroom/webhook";

export async function uses(client: Client, pooled: PoolClient, event: Event): Promise<string | null> {
  const id: string = await append(client, event);
  const ids: string[] = await appendMany(pooled, [event, { type: "order.placed", key: null, occurredAt: new Date() }]);
  const isNew: boolean = await accept(client, "books", id);
  const { key } = await assertAppended(client, "order.placed", { key: "order-7", payloadContains: { total: 4200 } });
  verify(["whsec_AAAA"], { "webhook-id": id }, Buffer.from(String(isNew)));
  return ids[0] ?? key ?? (await appendOnce(client, "request-1", event, { schema: "events" }));
}

export const worker = new Worker("http://127.0.0.1:7480", "mailer", "token", async (event: Incoming) => {
  if (event.attempt > 3) throw new Failure("too often", { permanent: true });
});

// @ts-expect-error An event has a type.
export const nameless: Event = { key: "order-7" };
export const pool = Pool;
