"""Assertions for your tests: what the open transaction has appended. The role of the test must be able to read the log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from postroom._calls import Call, _quoted
from postroom._sync import run

__all__ = ["Appended", "assert_appended", "assert_not_appended"]


@dataclass(frozen=True)
class Appended:
    """An event that the transaction has appended."""

    id: str
    type: str
    key: str | None


def assert_appended(
    conn: Any,
    type: str,
    key: str | None = None,
    payload_contains: object = None,
    *,
    schema: str = "postroom",
) -> Appended:
    """Asserts that the transaction of ``conn`` has appended an event of this type, and returns the first one.

    With ``key`` it has this key; with ``payload_contains`` its payload has at least these members, as ``@>`` of PostgreSQL
    compares them. The message of the failure lists types and keys, without payloads.
    """
    return find(type, run(conn, appended_call(schema, type, key, payload_contains)))


def assert_not_appended(conn: Any, type: str, key: str | None = None, *, schema: str = "postroom") -> None:
    """Asserts that the transaction of ``conn`` has appended no event of this type."""
    rows = run(conn, appended_call(schema, type, key, None))
    if any(row[3] for row in rows):
        raise AssertionError(f"{type!r} was appended; there is {_list(rows)}")


def appended_call(schema: str, type: str, key: str | None, payload_contains: object) -> Call:
    """Reads what the transaction has appended, and which of it is wanted."""
    sql = (
        "with wanted as (select cast($1 as text) as type, cast($2 as text) as key, "
        "cast(cast($3 as text) as jsonb) as part) "
        "select log.id, log.type, coalesce(log.key, log.aggregate_id), log.type = wanted.type "
        "and (wanted.key is null or wanted.key = coalesce(log.key, log.aggregate_id)) "
        "and (wanted.part is null or case when log.content_type is null "
        "then cast(convert_from(log.payload, 'UTF8') as jsonb) @> wanted.part else false end) "
        f"from {_quoted(schema)}.log, wanted "
        "where log.tx = cast(cast(pg_current_xact_id_if_assigned() as text) as bigint) order by log.seq"
    )
    part = None if payload_contains is None else json.dumps(payload_contains)
    return Call(sql, (type, key, part))


def find(type: str, rows: list[Any]) -> Appended:
    """Returns the first wanted row, or fails with the list of all."""
    for id, found, key, wanted in rows:
        if wanted:
            return Appended(id, found, key)
    raise AssertionError(f"no such {type!r} was appended; there is {_list(rows)}")


def _list(rows: list[Any]) -> str:
    return ", ".join(f"{row[1]} (key {row[2]})" if row[2] else str(row[1]) for row in rows) or "nothing"
