// The wiring of the consumer, as the team's document has it, but for one word: what cannot be handled is rejected *without*
// requeue, which would bring it back for ever.
import { connect } from "amqplib";
import { EventInboxService } from "./events/event-inbox.service";
import { OrderEventsConsumer } from "./events/order-events.consumer";
import { prisma } from "./prisma";

const QUEUE = "notifications";

async function main() {
  const connection = await connect(process.env.RABBITMQ_URL ?? "");
  const channel = await connection.createChannel();
  // As the relay declares it with its bindings, whoever comes first.
  await channel.assertQueue(QUEUE, {
    durable: true,
    deadLetterExchange: "holdco.events.dlx",
    deadLetterRoutingKey: `${QUEUE}.dlq`,
    arguments: { "x-queue-type": "classic" },
  });
  await channel.prefetch(10);

  const consumer = new OrderEventsConsumer(new EventInboxService(prisma), QUEUE);
  await channel.consume(QUEUE, async (message) => {
    const ok = await consumer.handleMessage(message);
    if (!message) return;
    if (ok) {
      channel.ack(message);
    } else {
      channel.nack(message, false, false);
    }
  });
  process.on("SIGTERM", () => void connection.close().then(() => process.exit()));
}

main();
