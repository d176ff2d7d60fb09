"""Append and accept on connections that block: DB-API drivers, Django and SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Unpack

from postroom import _calls
from postroom._calls import Call, Event, EventOptions, NotInTransaction


def append(
    conn: Any,
    type: str,
    key: str | None = None,
    payload: object = None,
    *,
    schema: str = "postroom",
    **options: Unpack[EventOptions],
) -> str:
    """Appends an event in the transaction of ``conn`` and returns its id.

    The event is delivered if and only if the transaction commits. ``schema`` is that of the store's tables; the other options
    are the fields of :class:`Event`.
    """
    return str(run(conn, _calls.append(schema, Event(type, key, payload, **options)))[0][0])


def append_once(
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
    id = run(conn, _calls.append_once(schema, idempotency_key, Event(type, key, payload, **options)))[0][0]
    return None if id is None else str(id)


def append_many(conn: Any, events: Iterable[Event], *, schema: str = "postroom") -> list[str]:
    """Appends several events in this order, with one statement; returns their ids."""
    return [str(row[0]) for row in run(conn, _calls.append_many(schema, events))]


def accept(conn: Any, consumer: str, id: str, *, schema: str = "postroom") -> bool:
    """Records in the transaction of ``conn`` that this consumer processes this event.

    Returns ``True`` if the event is new to the consumer, and ``False`` if it was accepted before: then there is nothing to do.
    """
    return bool(run(conn, _calls.accept(schema, consumer, id))[0][0])


def run(conn: Any, call: Call) -> list[Any]:
    """Runs a statement in the transaction of ``conn`` and returns its rows."""
    if of_sqlalchemy(conn):
        from sqlalchemy import text

        return list(conn.execute(text(call.with_names()), call.named()))
    refuse_autocommit(conn)
    with closing(conn.cursor()) as cursor:
        cursor.execute(call.with_marks(), call.values)
        return list(cursor.fetchall())


def of_sqlalchemy(conn: object) -> bool:
    """Tells a session, a connection or a registry of sessions from a connection of a driver."""
    return any(known.__module__.partition(".")[0] == "sqlalchemy" for known in type(conn).__mro__)


def refuse_autocommit(conn: Any) -> None:
    """Raises when the connection commits every statement by itself."""
    # Django's connection connects when it is asked.
    autocommit = conn.get_autocommit() if hasattr(conn, "get_autocommit") else getattr(conn, "autocommit", False)
    # Of psycopg; 0 is idle. In autocommit mode a transaction may still have been begun explicitly.
    status = getattr(getattr(conn, "info", None), "transaction_status", 0)
    if autocommit and status == 0:
        raise NotInTransaction
