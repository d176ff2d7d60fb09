# worker.py: books each order once, until SIGTERM.
import os

import psycopg
import postroom


def book(event: postroom.Incoming) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        if postroom.accept(conn, "books", event.id):  # in the transaction of the effect
            total = event.data["total"]
            conn.execute("insert into booked (order_id, total) values (%s, %s)", (event.key, total))


postroom.Worker(os.environ["WORKER_URL"], "mailer", os.environ["WORKER_TOKEN"], book).run()
