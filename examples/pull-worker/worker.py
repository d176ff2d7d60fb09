#!/usr/bin/env python3
"""A worker that pulls events of the route `mailer` and settles them. Standard library only."""

import json
import os
import sys
import time
import urllib.error
import urllib.request

BASE = os.environ.get("WORKER_URL", "http://127.0.0.1:7480") + "/api/v1/pull/mailer"
TOKEN = os.environ["WORKER_TOKEN"]


def post(path, body):
    request = urllib.request.Request(
        BASE + path,
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


def handle(event):
    """Your work. It may see an event twice: `id` stays the same."""
    data = event["envelope"]["data"]
    if "email" not in data:
        raise ValueError("nobody to write to")
    print("mail to", data["email"], "about", event["id"], flush=True)


def settled(event):
    try:
        handle(event)
        return {"lease": event["lease"], "ok": True}
    except ValueError as error:
        return {"lease": event["lease"], "error": str(error), "permanent": True}
    except Exception as error:  # worth another try
        return {"lease": event["lease"], "error": str(error), "retry_after": "5s"}


once = "--once" in sys.argv
while True:
    try:
        events = post("", {"limit": 100, "wait": "1s" if once else "20s"})
        if events:
            post("/settle", {"results": [settled(event) for event in events]})
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {error.read().decode()}")
    except OSError as error:  # the relay is away; what we leased comes again
        print(f"{error}; again in a second", file=sys.stderr)
        time.sleep(1)
        continue
    if once:
        break
