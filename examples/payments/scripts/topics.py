"""Makes the topics of these names where they are missing."""
import asyncio
import os
import sys

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

PREFIX = os.environ.get("KAFKA_TOPIC_PREFIX", "payments")


async def main(names: list[str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=os.environ.get("REDPANDA_BROKERS", "localhost:19092"))
    await admin.start()
    try:
        wanted = [f"{PREFIX}.{name}" for name in names]
        there = await admin.list_topics()
        await admin.create_topics([NewTopic(name, 3, 1) for name in wanted if name not in there])
    finally:
        await admin.close()


asyncio.run(main(sys.argv[1:]))
