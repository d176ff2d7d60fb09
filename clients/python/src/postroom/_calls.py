"""The statements of append and accept, and what an event is in them. Who runs them is left to the drivers' modules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TypedDict


class NotInTransaction(RuntimeError):
    """Raised when there is no transaction that the event could commit with: the connection is in autocommit mode."""

    def __init__(self) -> None:
        super().__init__("the connection has no open transaction: begin one, so that event and data commit together")


class EventOptions(TypedDict, total=False):
    """Optional fields of an event."""

    id: str | None
    aggregate_type: str | None
    aggregate_id: str | None
    tenant: str | None
    headers: Mapping[str, str] | None
    attributes: Mapping[str, object] | None
    correlation_id: str | None
    causation_id: str | None
    schema_version: int
    occurred_at: datetime | None
    available_at: datetime | None
    content_type: str | None


@dataclass(frozen=True)
class Event:
    """An event to append.

    ``key`` decides the order: events with the same key are delivered one after the other. ``payload`` is anything that
    ``json.dumps`` takes; ``bytes`` are JSON text that is kept byte for byte, or anything else if ``content_type`` says what.
    """

    type: str
    key: str | None = None
    payload: object = None
    _: KW_ONLY
    id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    tenant: str | None = None
    headers: Mapping[str, str] | None = None
    attributes: Mapping[str, object] | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    schema_version: int = 1
    occurred_at: datetime | None = None
    available_at: datetime | None = None
    content_type: str | None = None


@dataclass(frozen=True)
class Call:
    """A statement with numbered parameters, each of them used once and in order, and their values."""

    sql: str
    values: tuple[object, ...]

    def with_marks(self) -> str:
        """Returns the statement as most DB-API drivers want it."""
        return re.sub(r"\$\d+", "%s", self.sql)

    def with_names(self) -> str:
        """Returns the statement as SQLAlchemy wants it."""
        return re.sub(r"\$(\d+)", r":p\1", self.sql)

    def named(self) -> dict[str, object]:
        """Returns the values under the names of :meth:`with_names`."""
        return {f"p{number}": value for number, value in enumerate(self.values, 1)}


def append(schema: str, event: Event) -> Call:
    if event.content_type is None:
        return _call(schema, "append", {}, event, _json(event.payload))
    if not isinstance(event.payload, bytes):
        raise TypeError(f"a payload with content_type is bytes, not {type(event.payload).__name__}")
    return _call(schema, "append_bytes", {"content_type": event.content_type}, event, event.payload)


def append_once(schema: str, idempotency_key: str, event: Event) -> Call:
    if event.content_type is not None:
        raise ValueError("append_once takes JSON payloads only: leave content_type out")
    return _call(schema, "append_once", {"idempotency_key": idempotency_key}, event, _json(event.payload))


def append_many(schema: str, events: Iterable[Event]) -> Call:
    listed = "[" + ",".join(_listed(event) for event in events) + "]"
    return Call(f"select {_quoted(schema)}.append_many(cast(cast($1 as text) as json))", (listed,))


def accept(schema: str, consumer: str, id: str) -> Call:
    return Call(f"select {_quoted(schema)}.accept(cast($1 as text), cast($2 as text))", (consumer, id))


def _call(schema: str, function: str, first: Mapping[str, str], event: Event, payload: str | bytes) -> Call:
    headers, attributes = json.dumps(dict(event.headers or {})), json.dumps(dict(event.attributes or {}))
    # Text first: a driver's own codecs for JSON would encode it a second time.
    fields: list[tuple[str, str, object]] = [
        *((name, "cast({} as text)", value) for name, value in first.items()),
        ("type", "cast({} as text)", event.type),
        ("key", "cast({} as text)", event.key),
        ("payload", "cast({} as bytea)" if isinstance(payload, bytes) else "cast(cast({} as text) as json)", payload),
        ("id", "cast({} as text)", event.id),
        ("aggregate_type", "cast({} as text)", event.aggregate_type),
        ("aggregate_id", "cast({} as text)", event.aggregate_id),
        ("tenant", "cast({} as text)", event.tenant),
        ("headers", "cast(cast({} as text) as jsonb)", headers),
        ("attributes", "cast(cast({} as text) as jsonb)", attributes),
        ("correlation_id", "cast({} as text)", event.correlation_id),
        ("causation_id", "cast({} as text)", event.causation_id),
        ("schema_version", "cast({} as int)", event.schema_version),
        ("occurred_at", "cast(cast({} as text) as timestamptz)", _time(event.occurred_at)),
        ("available_at", "cast(cast({} as text) as timestamptz)", _time(event.available_at)),
    ]
    arguments = ", ".join(f"{name} => {cast.format(f'${n}')}" for n, (name, cast, _) in enumerate(fields, 1))
    return Call(f"select {_quoted(schema)}.{function}({arguments})", tuple(value for _, _, value in fields))


def _listed(event: Event) -> str:
    if event.content_type is not None:
        raise ValueError("append_many takes JSON payloads only: leave content_type out, or append the event by itself")
    text = _json(event.payload)
    if isinstance(event.payload, bytes):
        json.loads(text)  # a text that is not one whole value would become part of the list
    fields = {
        "type": event.type,
        "key": event.key,
        "id": event.id,
        "aggregate_type": event.aggregate_type,
        "aggregate_id": event.aggregate_id,
        "tenant": event.tenant,
        "headers": dict(event.headers or {}),
        "attributes": dict(event.attributes or {}),
        "correlation_id": event.correlation_id,
        "causation_id": event.causation_id,
        "schema_version": event.schema_version,
        "occurred_at": _time(event.occurred_at),
        "available_at": _time(event.available_at),
    }
    return f'{json.dumps(fields)[:-1]}, "payload": {text}}}'


def _json(payload: object) -> str:
    if isinstance(payload, bytes):
        return payload.decode()
    return json.dumps(payload, ensure_ascii=False, allow_nan=False)


def _time(time: datetime | None) -> str | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone: use datetime.now(timezone.utc)")
    return time.isoformat()


def _quoted(schema: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", schema):
        raise ValueError(f"{schema!r} is no name of a schema: use letters, digits and _")
    return f'"{schema}"'
