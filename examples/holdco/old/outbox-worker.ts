// The team's outbox worker, which the relay replaces: locks a batch, publishes with confirms, marks.
//
// It is kept as it was, with what was wrong about it: while RabbitMQ is away every try counts, so that a long outage makes
// everything dead; and the tenth failure is seen by nobody who does not query the table.
import { connect } from "amqplib";
import { setTimeout as sleep } from "node:timers/promises";
import type { EventOutbox } from "../generated/client";
import { prisma } from "../src/prisma";

const BATCH = 100;
const POLL_MS = Number(process.env.OUTBOX_POLL_MS ?? "1000");
const MAX_ATTEMPTS = 10;

async function main() {
  const connection = await connect(process.env.RABBITMQ_URL ?? "");
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange("holdco.events", "topic", { durable: true });
  for (;;) {
    const busy = await prisma.$transaction(async (tx) => {
      const rows = await tx.$queryRaw<EventOutbox[]>`
        select id, group_id as "groupId", subsidiary_id as "subsidiaryId", aggregate_type as "aggregateType",
          aggregate_id as "aggregateId", event_type as "eventType", payload, attempts, created_at as "createdAt"
        from event_outbox where status = 'pending' and available_at <= now()
        order by available_at, created_at, id limit ${BATCH} for update skip locked`;
      for (const row of rows) {
        try {
          await publish(channel, row);
          await tx.eventOutbox.update({ where: { id: row.id }, data: { status: "published" } });
        } catch (error) {
          const attempts = row.attempts + 1;
          const availableAt = new Date(Date.now() + Math.min(2 ** attempts * 5_000, 900_000));
          const status = attempts < MAX_ATTEMPTS ? "pending" : "dead";
          await tx.eventOutbox.update({ where: { id: row.id }, data: { attempts, availableAt, status } });
        }
      }
      return rows.length === BATCH;
    }, { timeout: 60_000, maxWait: 60_000 });
    if (!busy) await sleep(POLL_MS);
  }
}

function publish(channel: Awaited<ReturnType<Awaited<ReturnType<typeof connect>>["createConfirmChannel"]>>, row: EventOutbox) {
  const envelope = {
    event_id: row.id,
    occurred_at: row.createdAt.toISOString().replace(/\.\d+/, ""),
    aggregate_type: row.aggregateType,
    aggregate_id: row.aggregateId,
    event_type: row.eventType,
    group_id: row.groupId,
    subsidiary_id: row.subsidiaryId,
    payload: row.payload,
  };
  const headers = {
    "x-event-id": row.id,
    "x-aggregate-type": row.aggregateType,
    "x-aggregate-id": row.aggregateId,
    "x-group-id": row.groupId,
    "x-subsidiary-id": row.subsidiaryId,
    "x-event-type": row.eventType,
    "x-attempts": row.attempts,
  };
  return new Promise<void>((resolve, reject) => {
    const key = `${row.aggregateType}.${row.eventType}`;
    const options = { messageId: row.id, headers, persistent: true };
    channel.publish("holdco.events", key, Buffer.from(JSON.stringify(envelope)), options, (error) => (error ? reject(error) : resolve()));
  });
}

main();
