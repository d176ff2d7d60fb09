// Prints how many messages wait in each queue.
import { connect } from "amqplib";

const QUEUES = ["analytics.ingest", "erp.sync", "inventory.reconcile", "pricing.refresh", "notifications"];

async function main() {
  const connection = await connect(process.env.RABBITMQ_URL ?? "");
  const channel = await connection.createChannel();
  for (const queue of QUEUES.flatMap((queue) => [queue, `${queue}.dlq`])) {
    console.log(queue, (await channel.checkQueue(queue)).messageCount);
  }
  await connection.close();
}

main();
