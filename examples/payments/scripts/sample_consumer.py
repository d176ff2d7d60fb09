#!/usr/bin/env python3
"""Sample event consumer for payment events."""
import asyncio
import json
from aiokafka import AIOKafkaConsumer

TOPICS = [
    "payments.paymentauthorized",
    "payments.paymentdeclined",
    "payments.dlq",
]

async def process_event(topic: str, event: dict) -> None:
    """Process a received event."""
    event_type = event.get("event_type", "unknown")
    payload = event.get("payload", {})

    if event_type == "PaymentAuthorized":
        # Send notification, update read model, trigger workflow, etc.
        print(f"Payment authorized: {payload['payment_id']}")
        print(f"  Amount: {payload['amount_cents']} {payload['currency']}")
        print(f"  From: {payload['payer_account_id']}")
        print(f"  To: {payload['payee_account_id']}")

async def consume_events() -> None:
    consumer = AIOKafkaConsumer(
        *TOPICS,
        bootstrap_servers="localhost:19092",
        group_id="my-notification-service",
        auto_offset_reset="earliest",
        value_deserializer=lambda m: json.loads(m.decode("utf-8")),
    )

    await consumer.start()
    try:
        async for msg in consumer:
            await process_event(msg.topic, msg.value)
    finally:
        await consumer.stop()

if __name__ == "__main__":
    asyncio.run(consume_events())
