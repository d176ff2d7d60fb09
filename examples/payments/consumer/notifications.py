"""Notifies accounts of what became of their payments, once per event, however often it comes."""
import asyncio
import contextlib
import json
import os
import signal

import psycopg2
from aiokafka import AIOKafkaConsumer

PREFIX = os.environ.get("KAFKA_TOPIC_PREFIX", "payments")
GROUP = os.environ.get("GROUP_ID", f"{PREFIX}-notifications")
TEXTS = {
    "PaymentAuthorized": "you have paid {amount_cents} {currency}",
    "PaymentDeclined": "your payment was declined: {error_code}",
    "PaymentRefunded": "you have {amount_cents} {currency} back",
}


def accept(connection, event: dict) -> bool:
    """First the inbox, then the effect, in one transaction: a crash leaves both or none."""
    with connection, connection.cursor() as cursor:
        insert = "insert into inbox (consumer, event_id) values ('notifications', %s) on conflict do nothing"
        cursor.execute(insert, (event["event_id"],))
        if cursor.rowcount == 0:
            return False
        text = TEXTS[event["event_type"]].format(**event["payload"])
        account = event["payload"]["payer_account_id"]
        cursor.execute("insert into notifications values (%s, %s, %s)", (event["event_id"], account, text))
        return True


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    connection = psycopg2.connect(os.environ["DATABASE_URL"])
    consumer = AIOKafkaConsumer(
        bootstrap_servers=os.environ.get("REDPANDA_BROKERS", "localhost:19092"),
        group_id=GROUP,
        auto_offset_reset="earliest",
        # Offsets are committed after the work. Dead letters are for people, not for this consumer.
        enable_auto_commit=False,
        # A topic that is made later is found within a second.
        metadata_max_age_ms=1000,
    )
    consumer.subscribe(pattern=f"^{PREFIX}\\.payment.*$")
    await consumer.start()
    try:
        async for message in consumer:
            event = json.loads(message.value)
            if not accept(connection, event):
                print(f"{event['event_id']} came again", flush=True)
            await consumer.commit()
    finally:
        await consumer.stop()


with contextlib.suppress(asyncio.CancelledError):  # stopped
    asyncio.run(main())
