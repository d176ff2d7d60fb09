"""The event: a row of the outbox, in the transaction of what it tells. It is all that the service knows of events."""
import json

from payments import ulid


def append(cursor, event_type: str, payment_id: str, payload: dict) -> None:
    insert = (
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at)"
        " values (%s, 'Payment', %s, %s, %s, clock_timestamp())"
    )
    payload = {"payment_id": payment_id, **payload}
    cursor.execute(insert, (ulid.new(), payment_id, event_type, json.dumps(payload)))
