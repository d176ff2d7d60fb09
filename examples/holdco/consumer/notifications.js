// Notifies customers of what the queue `notifications` says, once per event, however often it comes.
const amqp = require("amqplib");
const { Pool } = require("pg");
const { setTimeout: sleep } = require("timers/promises");

const QUEUE = "notifications";
const TRIES = 3;
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

// The effect, here a row; it belongs into the transaction of the inbox.
async function notify(client, event) {
  const no = event.payload.order_no;
  if (!no) throw new Error("the payload has no order_no");
  const text = `${no}: ${event.aggregate_type} ${event.event_type}`;
  await client.query("insert into notifications (event_id, text) values ($1, $2)", [event.event_id, text]);
  return text;
}

// First the inbox, then the effect, in one transaction: a crash leaves both or none.
async function accept(event) {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const inbox = "insert into event_inbox (consumer_name, event_id) values ($1, $2) on conflict do nothing";
    const { rowCount } = await client.query(inbox, [QUEUE, event.event_id]);
    const said = rowCount === 1 ? await notify(client, event) : `${event.event_id} came again`;
    await client.query("commit");
    client.release();
    return said;
  } catch (error) {
    client.release(error); // closes the connection, which rolls back
    throw error;
  }
}

async function handle(channel, message) {
  for (let attempt = 1; ; attempt++) {
    try {
      console.log(await accept(JSON.parse(message.content)));
      return channel.ack(message);
    } catch (error) {
      // Without a database no message is to blame: this throws, the program ends, and the broker keeps what is not acknowledged.
      await pool.query("select 1");
      if (attempt === TRIES) {
        console.log(`${message.properties.messageId} is rejected: ${error.message}`);
        return channel.reject(message, false); // to the dead-letter queue; with requeue it would come back for ever
      }
      await sleep(50 * 2 ** attempt);
    }
  }
}

async function main() {
  const connection = await amqp.connect(process.env.RABBITMQ_URL || "amqp://guest:guest@localhost:5672");
  const channel = await connection.createChannel();
  // As the relay declares it with its bindings, whoever comes first.
  await channel.assertQueue(QUEUE, {
    durable: true,
    deadLetterExchange: "holdco.events.dlx",
    deadLetterRoutingKey: `${QUEUE}.dlq`,
    arguments: { "x-queue-type": "classic" },
  });
  await channel.prefetch(10);
  await channel.consume(QUEUE, (message) => handle(channel, message));
}

main();
