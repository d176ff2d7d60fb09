// node snippet.js, with DATABASE_URL set; needs the package pg.
const { Client } = require('pg');

const client = new Client({ connectionString: process.env.DATABASE_URL });

async function inTransaction(work) {
  await client.query('begin');
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

// The order and its event commit together, or neither does.
function placeOrder(order, total) {
  return inTransaction(async () => {
    await client.query('insert into orders (id, total) values ($1, $2)', [order, total]);
    const sql = "select postroom.append('order.placed', $1, $2) as id";
    const { rows } = await client.query(sql, [order, JSON.stringify({ total })]);
    return rows[0].id;
  });
}

// The id is remembered in the transaction of the effect, so a second delivery changes nothing.
function book(eventId, order, total) {
  return inTransaction(async () => {
    const { rows } = await client.query("select postroom.accept('books', $1) as is_new", [eventId]);
    if (rows[0].is_new) {
      await client.query('insert into booked (order_id, total) values ($1, $2)', [order, total]);
    }
  });
}

async function main() {
  await client.connect();
  const eventId = await placeOrder('order-7', 4200);
  await book(eventId, 'order-7', 4200);
  await book(eventId, 'order-7', 4200); // delivered twice, booked once
  await placeOrder('order-8\n', 100).catch((error) => console.log(error.code, error.message));
  await client.end();
}

main();
