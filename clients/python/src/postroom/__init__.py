"""Appends events in your transaction, accepts them once, and works off the routes of a Postroom relay.

The functions here take a connection whose transaction you own: of psycopg, psycopg2 or another DB-API driver, of Django, or a
``Session`` or ``Connection`` of SQLAlchemy. :mod:`postroom.aio` has the same for asyncio. Commit and rollback stay yours.
"""

from postroom._calls import Event, EventOptions, NotInTransaction
from postroom._sync import accept, append, append_many, append_once
from postroom.worker import Failure, Incoming, Worker, WorkerError

__all__ = [
    "Event",
    "EventOptions",
    "Failure",
    "Incoming",
    "NotInTransaction",
    "Worker",
    "WorkerError",
    "accept",
    "append",
    "append_many",
    "append_once",
]
