"""Answers the requests that ClearML's own client makes for its queues, in the form of ClearML's server."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET = "key", "secret"


class Server(ThreadingHTTPServer):
    """Queues by name, with entries of (task, added)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.queues = {}
        self.asked = []
        self.is_down = False

    @property
    def env(self):
        """Variables that configure the client."""
        url = f"http://127.0.0.1:{self.server_port}"
        hosts = {f"CLEARML_{name}_HOST": url for name in ("API", "WEB", "FILES")}
        return hosts | {"CLEARML_API_ACCESS_KEY": KEY, "CLEARML_API_SECRET_KEY": SECRET}

    def answer(self, action, body):
        """The data of an answer.

        Raises:
            KeyError: there is none.
        """
        if self.is_down:
            raise KeyError("down")
        if action == "auth.login":
            return {"token": _token()}
        if action == "queues.get_all":
            names = [name for name in self.queues if body["name"] == f"^{name}$"]
            return {"queues": [{"id": f"id-{name}", "name": name} for name in names]}
        if action == "queues.get_by_id":
            name = body["queue"].removeprefix("id-")
            entries = [{"task": task, "added": added} for task, added in self.queues[name]]
            return {"queue": {"id": body["queue"], "name": name, "entries": entries}}
        raise KeyError(action)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        action = self.path.strip("/").split("?")[0]
        action = ".".join(action.split("/")[-1].split(".")[-2:])
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.asked.append((action, body))
        code, data = 200, {}
        try:
            data = self.server.answer(action, body)
        except KeyError as error:
            code, data = 400, {"why": str(error)}
        meta = {
            "id": "1",
            "trx": "1",
            "endpoint": {"name": action, "requested_version": "2.23", "actual_version": "2.23"},
        }
        meta |= {"result_code": code, "result_subcode": 0, "result_msg": "OK" if code == 200 else "refused"}
        content = json.dumps({"meta": meta, "data": data}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving():
    """A server while the context is open."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _token():
    """A token that holds what the client reads of it; nobody here checks the signature."""
    parts = [
        {"alg": "HS256", "typ": "JWT"},
        {"exp": 4102444800, "api_version": "2.23", "server_version": "1.16", "feature_set": "basic"},
    ]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*texts, "c2lnbmF0dXJl"])
