"""A webhook's receiver that keeps a journal: receiver.py PORT SECRET JOURNAL ROUTE.

Checks every signature as the Standard Webhooks specification describes it, without any library of ours.
"""
import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, secret, journal, route = sys.argv[1:]
key = base64.b64decode(secret.removeprefix("whsec_"))
file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        ident, stamp = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        made = base64.b64encode(hmac.new(key, f"{ident}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
        right = f"v1,{made}" in self.headers["webhook-signature"].split() and abs(time.time() - int(stamp)) < 300
        event = json.loads(body) if right else {}
        if event.get("id") == ident:
            data = event["data"]
            os.write(file, f"0 {route} {ident} {data['key']} {data['number']} 1 ok\n".encode())
        self.send_response(204 if right else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        """A relay that is killed leaves its connections."""


Server(("127.0.0.1", int(port)), Receiver).serve_forever()
