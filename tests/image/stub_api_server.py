"""An API server that refuses everything and remembers who asked for what."""

import json
import ssl
import threading
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import trustme

TOKEN = "of-the-tests"  # noqa: S105 - of a server on the loopback device that refuses everything


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent: the path without its query, and the header Authorization."""

    path: str
    token: str


class StubApiServer:
    """Serves TLS on the loopback device while the context is open.

    Attributes:
        requests: What came so far, oldest first.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._ca = trustme.CA()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Refusal, self.requests))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as folder:
            pair = Path(folder, "pair.pem")
            self._ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pair))
            context.load_cert_chain(pair)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)

    @property
    def ca_pem(self) -> bytes:
        """The CA of its certificate."""
        return self._ca.cert_pem.bytes()

    def kubeconfig(self, ca_file: str) -> dict[str, Any]:
        """A kubeconfig with a token, for a client that finds the CA in a file."""
        cluster = {
            "server": f"https://127.0.0.1:{self._server.server_address[1]}",
            "certificate-authority": ca_file,
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stub", "cluster": cluster}],
            "users": [{"name": "stub", "user": {"token": TOKEN}}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
            "current-context": "stub",
        }

    def paths(self) -> set[str]:
        """What was asked for."""
        return {request.path for request in self.requests}

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Refusal(BaseHTTPRequestHandler):
    def __init__(self, requests: list[Request], *arguments: Any) -> None:
        self._requests = requests
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._requests.append(Request(self.path.partition("?")[0], self.headers.get("Authorization", "")))
        body = json.dumps({"kind": "Status", "code": 403, "message": "refused by the tests"}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815 - the same

    def log_message(self, *_: Any) -> None:
        """The test reads `requests`."""
