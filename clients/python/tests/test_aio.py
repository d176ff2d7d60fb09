"""Append and accept with asyncio."""

import asyncio
import json
import os
from collections.abc import Coroutine

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from postroom import Event, NotInTransaction, aio

URL = os.environ["DATABASE_URL"]


async def every_call(conn: object) -> str:
    one = await aio.append(conn, "shop.opened", "shop-1", {"name": "Ä"})
    await aio.append(conn, "shop.drawn", payload=b"\x00", content_type="image/png")
    many = await aio.append_many(conn, [Event("shop.moved", "shop-1"), Event("shop.closed", "shop-1")])
    assert len({one, *many}) == 3
    assert await aio.append_once(conn, one, "shop.opened") is not None
    assert await aio.append_once(conn, one, "shop.opened") is None
    assert await aio.accept(conn, "books", one)
    assert not await aio.accept(conn, "books", one)
    appended = await aio.assert_appended(conn, "shop.opened", key="shop-1", payload_contains={"name": "Ä"})
    with pytest.raises(AssertionError, match="shop.moved"):
        await aio.assert_appended(conn, "shop.sold")
    return appended.id


def committed(id: str) -> bool:
    with psycopg.connect(URL) as conn:
        return conn.execute("select from postroom.log where id = %s", (id,)).rowcount == 1


def run(test: Coroutine[None, None, None]) -> None:
    asyncio.run(test)


def test_the_events_are_there_if_and_only_if_the_transaction_of_asyncpg_commits() -> None:
    async def test() -> None:
        conn = await asyncpg.connect(URL)
        # A codec of the application's own does not encode payloads a second time.
        await conn.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        with pytest.raises(NotInTransaction):
            await aio.append(conn, "shop.opened")
        async with conn.transaction():
            kept = await every_call(conn)
        transaction = conn.transaction()
        await transaction.start()
        gone = await every_call(conn)
        await transaction.rollback()
        await conn.close()
        assert committed(kept) and not committed(gone)

    run(test())


def test_the_events_are_there_if_and_only_if_the_async_session_commits() -> None:
    async def test() -> None:
        for driver in ("asyncpg", "psycopg"):
            engine = create_async_engine(URL.replace("postgres://", f"postgresql+{driver}://"))
            async with AsyncSession(engine) as session:
                kept = await every_call(session)
                await session.commit()
                gone = await every_call(session)
                await session.rollback()
            await engine.dispose()
            assert committed(kept) and not committed(gone)

    run(test())


def test_the_events_are_there_if_and_only_if_the_async_connection_of_psycopg_commits() -> None:
    async def test() -> None:
        async with await psycopg.AsyncConnection.connect(URL) as conn:
            kept = await every_call(conn)
            await conn.commit()
            gone = await every_call(conn)
            await conn.rollback()
        assert committed(kept) and not committed(gone)

    run(test())
