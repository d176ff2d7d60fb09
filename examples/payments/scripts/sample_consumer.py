#!/usr/bin/env python3
"""Sample event consumer for payment events: prints what it is told. Needs the package aiokafka."""
import asyncio
import json
import os

from aiokafka import AIOKafkaConsumer

PREFIX = os.environ.get("KAFKA_TOPIC_PREFIX", "payments")
TOPICS = [f"{PREFIX}.paymentauthorized", f"{PREFIX}.paymentdeclined", f"{PREFIX}.dlq"]


def process_event(topic: str, event: dict) -> None:
    payload = event["payload"]
    if topic.endswith(".dlq"):
        print(f"Dead letter: {event['event_id']}: {event['error']}", flush=True)
    elif event["event_type"] == "PaymentAuthorized":
        print(f"Payment authorized: {payload['payment_id']}: {payload['amount_cents']} {payload['currency']}", flush=True)
    elif event["event_type"] == "PaymentDeclined":
        print(f"Payment declined: {payload['payment_id']}: {payload['error_code']}", flush=True)


async def consume_events() -> None:
    # Consumers with one group id share the partitions; each service has a group id of its own.
    consumer = AIOKafkaConsumer(
        *TOPICS,
        bootstrap_servers=os.environ.get("REDPANDA_BROKERS", "localhost:19092"),
        group_id=os.environ.get("GROUP_ID", "my-notification-service"),
        auto_offset_reset="earliest",
        value_deserializer=lambda value: json.loads(value.decode("utf-8")),
    )
    await consumer.start()
    try:
        async for message in consumer:
            process_event(message.topic, message.value)
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run(consume_events())
