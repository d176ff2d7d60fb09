"""A worker for a route of kind ``pull``: leases events over HTTP, runs your handler, and settles the results."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import signal
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["Failure", "Incoming", "Worker", "WorkerError"]

_log = logging.getLogger("postroom")

#: Results wait at most this long for others, in seconds: the next event of a key comes after the one before is settled.
_SETTLE_AFTER = 1.0
#: First and longest pause while the relay is away, in seconds.
_PAUSE, _PAUSE_MAX = 0.2, 10.0


class Failure(Exception):
    """Raise this in a handler to say what becomes of the event.

    ``permanent`` makes it a dead letter; ``retry_after`` asks for another attempt after that time. Any other exception is
    retried as the route's ``retry`` says.
    """

    def __init__(self, message: str, *, permanent: bool = False, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after


class WorkerError(Exception):
    """Raised when the relay refuses the worker: a wrong token, or no such route."""


class _Away(Exception):
    """The relay cannot be asked at the moment."""


@dataclass(frozen=True)
class Incoming:
    """An event as a worker gets it. It may come twice, with the same ``id``."""

    id: str
    type: str
    #: Counts from 1.
    attempt: int
    route: str
    #: The envelope; a structured CloudEvent unless the route says otherwise.
    envelope: Any

    @property
    def key(self) -> str | None:
        """The ordering key of a CloudEvent."""
        return self._part("partitionkey")  # type: ignore[no-any-return]

    @property
    def data(self) -> Any:
        """The payload of a CloudEvent."""
        return self._part("data")

    def _part(self, name: str) -> Any:
        return self.envelope.get(name) if isinstance(self.envelope, dict) else None


class Worker:
    """Leases events of a route, runs ``handler`` for each, one after the other, and settles them.

    Run several processes for more at once. ``lease`` is the time that a whole batch of ``limit`` events may take; an event whose
    lease has ended before its turn is left to the next worker. ``wait`` is how long the relay waits for the first event, and so
    how long an idle worker takes to stop.
    """

    def __init__(
        self,
        url: str,
        route: str,
        token: str,
        handler: Callable[[Incoming], object],
        *,
        limit: int = 20,
        lease: timedelta = timedelta(seconds=30),
        wait: timedelta = timedelta(seconds=5),
    ) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/pull/{urllib.parse.quote(route, safe='')}"
        self._token = token
        self._handler = handler
        self._limit, self._lease, self._wait = limit, lease, wait
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Lets :meth:`run` return when the events in hand are settled. It may be called from any thread, and twice."""
        self._stopping.set()

    def run(self) -> None:
        """Works until :meth:`stop` is called or, in the main thread, SIGTERM or SIGINT arrives.

        Then finishes the events in hand, settles them, and leases no more. Waits while the relay is away. Raises
        :class:`WorkerError` if the relay refuses the worker.
        """
        with self._signals():
            pause = _PAUSE
            while not self._stopping.is_set():
                ends = time.monotonic() + self._lease.total_seconds()
                asked = {"limit": self._limit, "wait": _text(self._wait), "lease": _text(self._lease)}
                try:
                    leased = self._post("", asked)
                except _Away as away:
                    _log.warning("the relay is away, again in %.1f s: %s", pause, away)
                    self._stopping.wait(pause)
                    pause = min(2 * pause, _PAUSE_MAX)
                    continue
                pause = _PAUSE
                self._work(leased, ends)

    def _work(self, leased: list[dict[str, Any]], ends: float) -> None:
        results: list[dict[str, Any]] = []
        settled = time.monotonic()
        for event in leased:
            if time.monotonic() >= ends:
                _log.warning("leases ended before their turn: lower limit, or raise lease")
                break
            results.append(self._handle(event))
            if time.monotonic() - settled >= _SETTLE_AFTER:
                self._settle(results, ends)
                results, settled = [], time.monotonic()
        self._settle(results, ends)

    def _handle(self, event: dict[str, Any]) -> dict[str, Any]:
        lease = event["lease"]
        incoming = Incoming(event["id"], event["type"], event["attempt"], event["route"], event["envelope"])
        try:
            self._handler(incoming)
        except Failure as failure:
            _log.warning("event %s failed: %s", incoming.id, failure)
            result = {"lease": lease, "error": str(failure), "permanent": failure.permanent}
            return result if failure.retry_after is None else result | {"retry_after": _text(failure.retry_after)}
        except Exception as error:  # worth another try
            _log.warning("event %s failed", incoming.id, exc_info=error)
            return {"lease": lease, "error": f"{type(error).__name__}: {error}"}
        return {"lease": lease, "ok": True}

    def _settle(self, results: list[dict[str, Any]], ends: float) -> None:
        pause = _PAUSE
        while results:
            try:
                unknown = self._post("/settle", {"results": results})["unknown"]
            except _Away as away:
                if time.monotonic() + pause >= ends:
                    _log.warning("%d events could not be settled and will come again: %s", len(results), away)
                    return
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_MAX)
                continue
            if unknown:
                _log.warning("%d events came too late to be settled and may come again", len(unknown))
            return

    def _post(self, path: str, body: object) -> Any:
        request = urllib.request.Request(
            self._url + path,
            data=json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self._token}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._wait.total_seconds() + 10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            detail = f"{error.code}: {error.read(1000).decode(errors='replace')}"
            if error.code in (408, 429) or error.code >= 500:
                raise _Away(detail) from None
            raise WorkerError(f"the relay refuses the worker with {detail}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Away(str(error) or type(error).__name__) from error

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(number, lambda *_: self.stop()) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before):
                signal.signal(number, handler)


def _text(time: timedelta) -> str:
    return f"{round(time.total_seconds() * 1000)}ms"
