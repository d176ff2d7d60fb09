# python3 snippet.py, with DATABASE_URL set; needs psycopg2.
import json
import os

import psycopg2

connection = psycopg2.connect(os.environ["DATABASE_URL"])


def place_order(order, total):
    """The order and its event commit together, or neither does."""
    with connection, connection.cursor() as cursor:  # commits, or rolls back when something is raised
        cursor.execute("insert into orders (id, total) values (%s, %s)", (order, total))
        payload = json.dumps({"total": total})
        cursor.execute("select postroom.append('order.placed', %s, %s)", (order, payload))
        return cursor.fetchone()[0]


def book(event_id, order, total):
    """The id is remembered in the transaction of the effect, so a second delivery changes nothing."""
    with connection, connection.cursor() as cursor:
        cursor.execute("select postroom.accept('books', %s)", (event_id,))
        if cursor.fetchone()[0]:
            cursor.execute("insert into booked (order_id, total) values (%s, %s)", (order, total))


event_id = place_order("order-7", 4200)
book(event_id, "order-7", 4200)
book(event_id, "order-7", 4200)  # delivered twice, booked once

try:
    place_order("order-8\n", 100)
except psycopg2.Error as error:
    print(error.pgcode, error.diag.message_primary)
