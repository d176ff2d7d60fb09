"""Prints what is in a Redis stream as lines of a journal: redis.py URL STREAM ROUTE."""
import json
import os
import sys

# This file must not stand in for the package of its name.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import redis  # noqa: E402

url, stream, route = sys.argv[1:]
client, after = redis.Redis.from_url(url, decode_responses=True), "-"
while True:
    entries = client.xrange(stream, after, count=1000)
    if not entries:
        break
    for _, fields in entries:
        data = json.loads(fields["data"])
        print(0, route, fields["ce_id"], data["key"], data["number"], 1, "ok")
    after = "(" + entries[-1][0]
