// worker.mjs: books each order once, until SIGTERM.
import pg from "pg";
import { accept, Worker } from "postroom";

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();

async function book(event) {
  try {
    await client.query("begin");
    if (await accept(client, "books", event.id)) { // in the transaction of the effect
      await client.query("insert into booked (order_id, total) values ($1, $2)", [event.key, event.data.total]);
    }
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

await new Worker(process.env.WORKER_URL, "mailer", process.env.WORKER_TOKEN, book).run();
await client.end();
