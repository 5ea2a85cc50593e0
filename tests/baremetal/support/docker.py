"""A stand-in for docker's daemon: it notes which container docker's own client asks for, and refuses it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def do_HEAD(self):
        self._answer(200, {})

    def do_GET(self):
        self._answer(200, {"ApiVersion": "1.50", "OSType": "linux"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.asked.append((self.path, body))
        self._answer(400, {"message": "noted"})

    def _answer(self, status, data):
        content = json.dumps(data).encode()
        self.send_response(status)
        for name, value in {
            "Api-Version": "1.50",
            "OSType": "linux",
            "Content-Type": "application/json",
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def daemon(path):
    """A list of (path, body) of what is posted to a daemon at this socket."""
    server = ThreadingUnixStreamServer(str(path), _Handler)
    server.daemon_threads, server.asked = True, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
