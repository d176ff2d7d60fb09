"""The payment service: POST /payments, POST /payments/ID/refund, and a page of its numbers.

Its events reach Kafka by a relay beside it, `postroom relay run --preset payments`.
"""
import json
import os
import signal
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

from payments import page, payment

FIELDS = {"payer_account_id": str, "payee_account_id": str, "amount_cents": int, "currency": str}
RECENT_MAX = int(os.environ.get("PAYMENTS_PER_MINUTE", "600"))


def connect():
    return closing(psycopg2.connect(os.environ["DATABASE_URL"]))


def is_plain(text: object) -> bool:
    return isinstance(text, str) and text.isprintable() and len(text.encode()) <= 64


def read(body: bytes) -> dict:
    """The payment that is asked for. What is declined has an event; what cannot be read has none."""
    request = json.loads(body)
    if not isinstance(request, dict) or {name: type(value) for name, value in request.items()} != FIELDS:
        raise ValueError(f"the fields are {', '.join(FIELDS)}")
    if not all(is_plain(request[name]) for name, kind in FIELDS.items() if kind is str):
        raise ValueError("accounts and currency are texts of at most 64 bytes without control characters")
    return request


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with connect() as connection:
            self.answer(200, page.html(connection), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            path = self.path.strip("/").split("/")
            if path == ["payments"]:
                self.pay(body)
            elif path[::2] == ["payments", "refund"] and len(path) == 3:
                self.refund(path[1])
            else:
                self.say(404, {"error": "no such path"})
        except psycopg2.Error as error:
            print(f"error: {error}", file=sys.stderr)
            self.say(503, {"error": "try again with the same key"})

    def pay(self, body: bytes) -> None:
        key = self.headers.get("Idempotency-Key")
        try:
            request = read(body)
            if key is not None and not (key.isascii() and is_plain(key)):
                raise ValueError("the idempotency key is no ASCII text of at most 64 characters")
        except ValueError as error:
            return self.say(400, {"error": str(error)})
        try:
            with connect() as connection:
                payment_id, error = payment.pay(connection, key, request, RECENT_MAX)
        except payment.Conflict:
            return self.say(409, {"error": "the idempotency key was used for another request"})
        if error is None:
            return self.say(201, {"payment_id": payment_id, "status": "authorized"})
        status = 429 if error == "RATE_LIMITED" else 422
        self.say(status, {"payment_id": payment_id, "status": "declined", "error_code": error})

    def refund(self, payment_id: str) -> None:
        with connect() as connection:
            refunded = payment.refund(connection, payment_id)
        self.say(200 if refunded else 409, {"payment_id": payment_id, "refunded": refunded})

    def say(self, status: int, body: dict) -> None:
        self.answer(status, json.dumps(body) + "\n", "application/json")

    def answer(self, status: int, text: str, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    host, port = os.environ.get("LISTEN", "127.0.0.1:8000").rsplit(":", 1)
    ThreadingHTTPServer((host, int(port)), Service).serve_forever()


if __name__ == "__main__":
    main()
