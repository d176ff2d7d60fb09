"""Append and accept with asyncio: connections of asyncpg and psycopg, ``AsyncSession`` and ``AsyncConnection`` of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from postroom import _calls
from postroom._calls import Call, Event, EventOptions, NotInTransaction
from postroom._sync import of_sqlalchemy, refuse_autocommit
from postroom.testing import Appended, appended_call, find

__all__ = ["accept", "append", "append_many", "append_once", "assert_appended"]


async def append(
    conn: Any,
    type: str,
    key: str | None = None,
    payload: object = None,
    *,
    schema: str = "postroom",
    **options: Unpack[EventOptions],
) -> str:
    """Appends an event in the transaction of ``conn`` and returns its id; see :func:`postroom.append`."""
    return str((await _run(conn, _calls.append(schema, Event(type, key, payload, **options))))[0][0])


async def append_once(
    conn: Any,
    idempotency_key: str,
    type: str,
    key: str | None = None,
    payload: object = None,
    *,
    schema: str = "postroom",
    **options: Unpack[EventOptions],
) -> str | None:
    """Appends an event unless this idempotency key was used before; returns its id, or ``None`` if it was."""
    rows = await _run(conn, _calls.append_once(schema, idempotency_key, Event(type, key, payload, **options)))
    return None if rows[0][0] is None else str(rows[0][0])


async def append_many(conn: Any, events: Iterable[Event], *, schema: str = "postroom") -> list[str]:
    """Appends several events in this order, with one statement; returns their ids."""
    return [str(row[0]) for row in await _run(conn, _calls.append_many(schema, events))]


async def accept(conn: Any, consumer: str, id: str, *, schema: str = "postroom") -> bool:
    """Records in the transaction of ``conn`` that this consumer processes this event; see :func:`postroom.accept`."""
    return bool((await _run(conn, _calls.accept(schema, consumer, id)))[0][0])


async def assert_appended(
    conn: Any,
    type: str,
    key: str | None = None,
    payload_contains: object = None,
    *,
    schema: str = "postroom",
) -> Appended:
    """Asserts that the transaction of ``conn`` has appended such an event; see :func:`postroom.testing.assert_appended`."""
    return find(type, await _run(conn, appended_call(schema, type, key, payload_contains)))


async def _run(conn: Any, call: Call) -> list[Any]:
    if of_sqlalchemy(conn):
        from sqlalchemy import text

        return list(await conn.execute(text(call.with_names()), call.named()))
    if hasattr(conn, "is_in_transaction"):  # asyncpg
        if not conn.is_in_transaction():
            raise NotInTransaction
        return list(await conn.fetch(call.sql, *call.values))
    refuse_autocommit(conn)
    async with conn.cursor() as cursor:
        await cursor.execute(call.with_marks(), call.values)
        return list(await cursor.fetchall())
