"""ClearML's server for its own client: what it answers about queues, written from the server's source.

clearml-server 2.0.0 (https://github.com/allegroai/clearml-server, commit 2976ce69), API 2.31: the envelope of
service_repo/apicall.py, logins of service_repo/auth/auth.py, errors of apierrors/errors.conf, and queues as
services/queues.py and database/model/queue.py give them.
"""

import base64
import json
import re
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET = "key", "secret"
CREATED = "2026-01-01T00:00:00.123000+00:00"
"""As rapidjson writes a time without a zone, with MongoDB's milliseconds."""


class ApiError(Exception):
    """What the server refuses: HTTP status, subcode, message."""


class Server(ThreadingHTTPServer):
    """Queues by name, with entries of (task, added)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.queues = {}
        self.asked = []
        self.token = _token()

    @property
    def env(self):
        url = f"http://127.0.0.1:{self.server_port}"
        hosts = {f"CLEARML_{name}_HOST": url for name in ("API", "WEB", "FILES")}
        return hosts | {"CLEARML_API_ACCESS_KEY": KEY, "CLEARML_API_SECRET_KEY": SECRET}

    def answer(self, action, body, authorization):
        kind, _, given = (authorization or "").partition(" ")
        if action == "auth.login":
            if kind != "Basic" or base64.b64decode(given).decode() != f"{KEY}:{SECRET}":
                why = "failed to locate provided credentials"
                raise ApiError(401, 22, f"unauthorized (invalid credentials) ({why})")
            return {"token": self.token}
        if (kind, given) != ("Bearer", self.token):
            raise ApiError(401, 20, "unauthorized (missing credentials)")
        if action == "queues.get_all":
            # MongoDB searches: a pattern without ^ and $ also finds longer names.
            found = [name for name in self.queues if re.search(body["name"], name)]
            return {"queues": [self._queue(name, body.get("max_task_entries")) for name in found]}
        raise ApiError(404, 0, f"Unable to find endpoint for name {action} and version 2.23")

    def _queue(self, name, most):
        entries = [{"task": task, "added": added} for task, added in self.queues[name]]
        known = {"id": uuid.uuid5(uuid.NAMESPACE_OID, name).hex, "name": name, "company": "d1bd92a3b039400c"}
        known |= {"created": CREATED, "last_update": CREATED, "tags": [], "system_tags": []}
        return known | {"entries": entries[:most] if most else entries}


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        # Without a version, as the client logs in, it is the newest.
        path = self.path.partition("?")[0]
        version, action = re.fullmatch(r"/(?:v([0-9.]+)/)?([a-z_.]+)", path).groups("2.31")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.asked.append((action, body))
        code, subcode, said, data = 200, 0, "OK", {}
        try:
            data = self.server.answer(action, body, self.headers.get("Authorization"))
        except ApiError as error:
            code, subcode, said = error.args
        actual = {"queues.get_all": "2.4", "auth.login": "1.0"}.get(action)
        endpoint = {"name": action, "requested_version": version, "actual_version": actual}
        meta = {"id": uuid.uuid4().hex, "trx": uuid.uuid4().hex, "endpoint": endpoint}
        meta |= {"result_code": code, "result_subcode": subcode, "result_msg": said}
        meta |= {"error_stack": None, "error_data": {}}
        content = json.dumps({"meta": meta, "data": data}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("server", "clearml")
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 the base class's names

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving():
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
    identity = {"user": "user", "company": "company", "role": "user", "user_name": "u", "company_name": "c"}
    payload = {"auth_type": "Bearer", "identity": identity, "iat": 1767225600, "exp": 4102444800, "env": ""}
    payload |= {"api_version": "2.31", "server_version": "2.0.0", "server_build": "613"}
    parts = [{"typ": "JWT", "alg": "HS256"}, payload | {"feature_set": "basic"}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*texts, "c2lnbmF0dXJl"])
