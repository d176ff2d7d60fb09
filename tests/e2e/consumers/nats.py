"""Prints what is in a JetStream stream as lines of a journal: nats.py URL STREAM ROUTE."""
import asyncio
import json
import os
import sys

# This file must not stand in for the package of its name.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import nats  # noqa: E402


async def main(url, stream, route):
    client = await nats.connect(url)
    jetstream = client.jetstream()
    left = (await jetstream.stream_info(stream)).state.messages
    subscription = await jetstream.pull_subscribe("", stream=stream)
    while left > 0:
        for message in await subscription.fetch(min(left, 500), timeout=30):
            data = json.loads(message.data)
            assert message.headers["Nats-Msg-Id"] == message.headers["ce-id"], message.headers
            print(0, route, message.headers["ce-id"], data["key"], data["number"], 1, "ok")
            await message.ack()
            left -= 1
    await client.close()


asyncio.run(main(*sys.argv[1:]))
