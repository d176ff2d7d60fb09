#!/usr/bin/env python3
"""Makes the service's topics where they are missing. Needs the package aiokafka."""
import asyncio
import os

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

PREFIX = os.environ.get("KAFKA_TOPIC_PREFIX", "payments")


async def main() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=os.environ.get("REDPANDA_BROKERS", "localhost:19092"))
    await admin.start()
    try:
        wanted = [f"{PREFIX}.{name}" for name in ("paymentauthorized", "paymentdeclined", "dlq")]
        there = await admin.list_topics()
        await admin.create_topics([NewTopic(name, 3, 1) for name in wanted if name not in there])
    finally:
        await admin.close()


asyncio.run(main())
