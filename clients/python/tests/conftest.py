"""What the tests share: the shop's database."""

import os
from collections.abc import Iterator

import psycopg
import pytest

URL = os.environ["DATABASE_URL"]


@pytest.fixture
def conn() -> Iterator[psycopg.Connection]:
    """A connection whose transaction is rolled back."""
    with psycopg.connect(URL) as conn:
        yield conn
        conn.rollback()
