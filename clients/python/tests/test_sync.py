"""Append and accept on connections that block."""

import os
from datetime import datetime, timezone

import django
import psycopg
import psycopg2
import pytest
import sqlalchemy
from django.conf import settings
from sqlalchemy import orm

import postroom
from postroom import Event
from postroom.testing import assert_appended, assert_not_appended

URL = os.environ["DATABASE_URL"]
ENGINE = sqlalchemy.create_engine(URL.replace("postgres://", "postgresql+psycopg://"))


def ids() -> list[str]:
    with psycopg.connect(URL) as conn:
        return [row[0] for row in conn.execute("select id from postroom.log order by seq").fetchall()]


def one_event_if_it_commits(conn: object, commit: object, rollback: object) -> None:
    rolled_back = postroom.append(conn, "shop.opened", "shop-1", {"name": "Ä"})
    rollback()
    kept = postroom.append(conn, "shop.opened", "shop-1", {"name": "Ä"})
    assert_appended(conn, "shop.opened", key="shop-1", payload_contains={"name": "Ä"})
    commit()
    assert kept in ids() and rolled_back not in ids()
    assert postroom.accept(conn, "books", kept)
    assert not postroom.accept(conn, "books", kept)
    rollback()
    assert postroom.accept(conn, "books", kept)
    rollback()


def test_the_event_is_there_if_and_only_if_the_transaction_of_psycopg_commits() -> None:
    with psycopg.connect(URL) as conn:
        one_event_if_it_commits(conn, conn.commit, conn.rollback)


def test_the_event_is_there_if_and_only_if_the_transaction_of_psycopg2_commits() -> None:
    conn = psycopg2.connect(URL)
    one_event_if_it_commits(conn, conn.commit, conn.rollback)
    conn.close()


def test_the_event_is_there_if_and_only_if_the_session_of_sqlalchemy_commits() -> None:
    with orm.Session(ENGINE) as session:
        one_event_if_it_commits(session, session.commit, session.rollback)
    session = orm.scoped_session(orm.sessionmaker(ENGINE))
    one_event_if_it_commits(session, session.commit, session.rollback)
    session.remove()
    with ENGINE.connect() as conn:
        one_event_if_it_commits(conn, conn.commit, conn.rollback)


def test_the_event_is_there_if_and_only_if_djangos_atomic_block_commits() -> None:
    parts = sqlalchemy.make_url(URL)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.database, "HOST": parts.host}
    settings.configure(DATABASES={"default": database | {"PORT": parts.port, "USER": parts.username}})
    django.setup()
    from django.db import connection, transaction

    with pytest.raises(postroom.NotInTransaction):
        postroom.append(connection, "shop.opened")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        rolled_back = postroom.append(connection, "shop.opened")
        raise ZeroDivisionError
    with transaction.atomic():
        kept = postroom.append(connection, "shop.opened")
        assert postroom.accept(connection, "books", kept)
    assert kept in ids() and rolled_back not in ids()
    connection.close()


def test_a_connection_that_commits_by_itself_is_refused() -> None:
    before = ids()
    with psycopg.connect(URL, autocommit=True) as conn:
        with pytest.raises(postroom.NotInTransaction, match="begin one"):
            postroom.append(conn, "shop.opened")
        with conn.transaction(force_rollback=True):
            postroom.append(conn, "shop.opened")
    old = psycopg2.connect(URL)
    old.autocommit = True
    with pytest.raises(postroom.NotInTransaction):
        postroom.accept(old, "books", "e-1")
    old.close()
    assert ids() == before


def test_every_field_arrives(conn: psycopg.Connection) -> None:
    when = datetime(2026, 11, 1, 9, 30, tzinfo=timezone.utc)
    fields = {
        "id": "e-1",
        "aggregate_type": "shop",
        "aggregate_id": "shop-1",
        "tenant": "acme",
        "headers": {"traceparent": "00-1"},
        "attributes": {"station_id": 12},
        "correlation_id": "request-31",
        "causation_id": "e-0",
        "schema_version": 2,
        "occurred_at": when,
        "available_at": when,
    }
    columns = ", ".join(fields)
    for append in (
        lambda: postroom.append(conn, "shop.opened", "k", {"a": 1}, **fields),
        lambda: postroom.append_once(conn, "request-31", "shop.opened", "k", {"a": 1}, **fields),
        lambda: postroom.append_many(conn, [Event("shop.opened", "k", {"a": 1}, **fields)])[0],
    ):
        assert append() == "e-1"
        row = conn.execute(f"select type, key, payload, {columns} from postroom.log where id = 'e-1'").fetchone()
        assert row == ("shop.opened", "k", b'{"a": 1}', *fields.values())
        conn.execute("delete from postroom.log where id = 'e-1'")


def test_payloads_are_kept_byte_for_byte(conn: psycopg.Connection) -> None:
    text = b'{"b":1,  "a" :"\xc3\xa9"}'
    one = postroom.append(conn, "shop.opened", payload=text)
    many = postroom.append_many(conn, [Event("shop.opened", payload=text), Event("shop.opened")])
    pdf = postroom.append(conn, "label.printed", payload=b"%PDF\x00", content_type="application/pdf")
    stored = dict(conn.execute("select id, payload from postroom.log").fetchall())
    assert [stored[id] for id in (one, *many, pdf)] == [text, text, b"null", b"%PDF\x00"]


def test_an_idempotency_key_appends_once(conn: psycopg.Connection) -> None:
    assert postroom.append_once(conn, "request-1", "shop.opened") is not None
    assert postroom.append_once(conn, "request-1", "shop.opened") is None


def test_a_payload_that_is_not_one_json_value_cannot_smuggle_an_event_in(conn: psycopg.Connection) -> None:
    with pytest.raises(ValueError):
        postroom.append_many(conn, [Event("shop.opened", payload=b'1}, {"type": "shop.closed"')])


def test_mistakes_are_named(conn: psycopg.Connection) -> None:
    with pytest.raises(ValueError, match="time zone"):
        postroom.append(conn, "shop.opened", occurred_at=datetime(2026, 11, 1))
    with pytest.raises(TypeError, match="bytes"):
        postroom.append(conn, "shop.opened", payload="text", content_type="text/plain")
    with pytest.raises(ValueError, match="schema"):
        postroom.append(conn, "shop.opened", schema='a"b')
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="control character"):
        postroom.append(conn, "shop.opened", key="a\nb")


def test_assertions_see_only_the_open_transaction_and_show_no_payload(conn: psycopg.Connection) -> None:
    assert_not_appended(conn, "shop.opened")
    postroom.append(conn, "shop.moved", "shop-1", {"secret": [1, 2], "deep": {"x": 1, "y": 2}})
    assert assert_appended(conn, "shop.moved", payload_contains={"deep": {"x": 1}}).key == "shop-1"
    with pytest.raises(AssertionError) as failed:
        assert_appended(conn, "shop.moved", key="shop-2")
    assert str(failed.value) == "no such 'shop.moved' was appended; there is shop.moved (key shop-1)"
    with pytest.raises(AssertionError):
        assert_appended(conn, "shop.moved", payload_contains={"deep": {"x": 2}})
    with pytest.raises(AssertionError, match="was appended"):
        assert_not_appended(conn, "shop.moved")
