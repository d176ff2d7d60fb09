"""Customers: they open accounts and pay each other, a few times a second, for as long as the service runs."""
import http.client
import itertools
import json
import os
import random
import signal
import sys
import time
from contextlib import closing

import psycopg2

PER_SECOND = float(os.environ.get("PAYMENTS_PER_SECOND", "5"))
NAMES = ["ada", "ben", "cleo", "dan"]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with closing(psycopg2.connect(os.environ["DATABASE_URL"])) as connection, connection, connection.cursor() as cursor:
        for name in NAMES:
            cursor.execute("insert into accounts values (%s, 'USD', 100000) on conflict do nothing", (name,))
    for number in itertools.count():
        payer, payee = random.sample(NAMES, 2)
        # One in seven asks for more than anybody has.
        cents = 10_000_000 if number % 7 == 0 else random.randint(1, 500)
        pay({"payer_account_id": payer, "payee_account_id": payee, "amount_cents": cents, "currency": "USD"})
        time.sleep(1 / PER_SECOND)


def pay(request: dict) -> None:
    """Asks until there is an answer, with one key: the payment is made once."""
    key = f"{time.time_ns()}-{random.getrandbits(32)}"
    while True:
        try:
            connection = http.client.HTTPConnection(os.environ.get("LISTEN", "127.0.0.1:8000"), timeout=5)
            connection.request("POST", "/payments", json.dumps(request), {"Idempotency-Key": key})
            if connection.getresponse().status != 503:
                return
        except OSError:
            pass
        time.sleep(0.2)


if __name__ == "__main__":
    main()
