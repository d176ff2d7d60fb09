// shop.mjs: the order and its event commit together, or neither does.
import pg from "pg";
import { append } from "postroom";

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query("begin");
await client.query("insert into orders (id, total) values ('order-7', 4200)");
await append(client, { type: "order.placed", key: "order-7", payload: { total: 4200 } });
await client.query("commit");
await client.end();
