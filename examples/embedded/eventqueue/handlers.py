"""Handlers in Python: an event per line, an answer per line."""

import json
import sys


def invoice(order):
    if order["pieces"] > 50:
        raise ValueError("too large to be paid later")


def points(order):
    pass


for line in sys.stdin:
    request = json.loads(line)
    errors = []
    for handler in (invoice, points):
        try:
            handler(request["envelope"]["data"])
        except Exception as error:
            errors.append({"handler": handler.__name__, "error": str(error)})
    answer = {"errors": errors} if errors else {"ok": True}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
