"""Workers: against the real relay, and against a stand-in that does what a relay rarely does."""

import json
import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
import pytest

import postroom
from postroom import Failure, Incoming, Worker, WorkerError

URL, RELAY, TOKEN = (os.environ[name] for name in ("DATABASE_URL", "WORKER_URL", "WORKER_TOKEN"))
SOON = timedelta(milliseconds=10)


def test_events_are_settled_as_the_handler_ends() -> None:
    with psycopg.connect(URL) as conn:
        for name in ("ok", "retried", "bad"):
            postroom.append(conn, "order.noted", f"key-{name}", {"name": name}, id=f"order-{name}")
    seen: list[tuple[str, int, str | None]] = []

    def handle(event: Incoming) -> None:
        seen.append((event.id, event.attempt, event.key))
        assert event.data == {"name": event.id.removeprefix("order-")}
        if len(seen) == 4:
            worker.stop()
        if event.id == "order-bad":
            raise Failure("no such customer", permanent=True)
        if event.id == "order-retried" and event.attempt == 1:
            raise Failure("mailbox is full", retry_after=SOON)

    worker = Worker(RELAY, "mailer", TOKEN, handle)
    worker.run()
    expected = [("bad", 1), ("ok", 1), ("retried", 1), ("retried", 2)]
    assert sorted(seen) == [(f"order-{name}", attempt, f"key-{name}") for name, attempt in expected]


def test_a_wrong_token_and_an_unknown_route_end_the_worker() -> None:
    for route, token, code in (("mailer", "wrong", "401"), ("nobody", TOKEN, "404")):
        with pytest.raises(WorkerError, match=code):
            Worker(RELAY, route, token, print, wait=SOON).run()


class StandIn:
    """Answers requests with what it was given, in order, and keeps their bodies."""

    def __init__(self, *answers: tuple[int, object]) -> None:
        self.answers, self.requests = list(answers), []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stand_in.requests.append((self.path.removeprefix("/api/v1/pull/r"), body))
                # A worker that asks for more than was meant fails, rather than for ever.
                status, answer = stand_in.answers.pop(0) if stand_in.answers else (404, {})
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def worker(self, handler: Callable[[Incoming], object], **options: object) -> Worker:
        return Worker(f"http://127.0.0.1:{self.server.server_port}/", "r", "t", handler, **options)


def leased(*names: str) -> list[dict]:
    new = {"processed": [], "something": "new"}  # fields that this version does not know
    return [
        {"lease": f"lease {name}", "id": name, "type": "t", "attempt": 1, "route": "r", "envelope": {}} | new
        for name in names
    ]


def test_a_worker_waits_for_a_relay_that_is_away_and_stops_when_what_it_has_is_settled() -> None:
    relay = StandIn((503, {}), (200, leased("a", "b")), (502, {}), (200, {"settled": 2, "unknown": ["lease b"]}))
    handled: list[str] = []

    def handle(event: Incoming) -> None:
        worker.stop()  # with `a` in hand and `b` leased
        handled.append(event.id)

    worker = relay.worker(handle)
    worker.run()
    assert handled == ["a", "b"]
    results = {"results": [{"lease": "lease a", "ok": True}, {"lease": "lease b", "ok": True}]}
    asked = {"limit": 20, "wait": "5000ms", "lease": "30000ms"}
    assert relay.requests == [("", asked), ("", asked), ("/settle", results), ("/settle", results)]


def test_an_event_whose_lease_has_ended_is_left_to_the_next_worker(caplog: pytest.LogCaptureFixture) -> None:
    relay = StandIn((200, leased("a", "b")), (200, {"settled": 0, "unknown": ["lease a"]}))
    handled: list[str] = []
    ended = threading.Event()

    def handle(event: Incoming) -> None:
        handled.append(event.id)
        worker.stop()
        ended.wait(2.1)  # longer than the lease, which leaves a slow machine time to ask for it

    worker = relay.worker(handle, lease=timedelta(seconds=2))
    with caplog.at_level(logging.WARNING):
        worker.run()
    assert handled == ["a"]
    assert "before their turn" in caplog.text and "too late" in caplog.text


def test_an_exception_of_the_handler_is_retried_by_the_route() -> None:
    relay = StandIn((200, leased("a")), (200, {"settled": 1, "unknown": []}))

    def handle(_: Incoming) -> None:
        worker.stop()
        raise KeyError("email")

    worker = relay.worker(handle)
    worker.run()
    assert relay.requests[1] == ("/settle", {"results": [{"lease": "lease a", "error": "KeyError: 'email'"}]})
