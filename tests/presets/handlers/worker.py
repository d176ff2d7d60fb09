"""A worker that leases events of a pull route, writes down what it is given, and ends after so many events.

    worker.py ADDRESS ROUTE EVENTS, with its token in WORKER_TOKEN
"""

import json
import os
import sys
import urllib.request

address, route, left = sys.argv[1], sys.argv[2], int(sys.argv[3])


def post(path, body):
    headers = {"authorization": "Bearer " + os.environ["WORKER_TOKEN"], "content-type": "application/json"}
    url = f"http://{address}/api/v1/pull/{route}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


while left > 0:
    for event in post("", {"limit": left, "wait": "20s"}):
        with open("received", "a") as received:
            print(json.dumps(event), file=received)
        post("/settle", {"results": [{"lease": event["lease"], "ok": True}]})
        left -= 1
