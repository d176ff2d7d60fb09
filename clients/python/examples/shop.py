# shop.py: the order and its event commit together, or neither does.
import os

import psycopg
import postroom

with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
    conn.execute("insert into orders (id, total) values ('order-7', 4200)")
    postroom.append(conn, "order.placed", key="order-7", payload={"total": 4200})
