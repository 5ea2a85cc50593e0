"""A webhook of the tests' own: HTTPS around one function, remembering what it was sent."""

import base64
import json
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import trustme

from testbed.api import Object

Answer = Callable[[bytes], bytes]
"""Body of the API server's request to body of the reply."""


class AdmissionServer:
    """Serves while the context is open.

    Args:
        answer: Called in a thread of its own for each request; status and media type of the reply are
            always 200 and JSON.

    Attributes:
        ca_pem: The CA to register it with.
        reviews: AdmissionReviews as the API server sent them, dry runs too, oldest first.
    """

    def __init__(self, answer: Answer) -> None:
        ca = trustme.CA()
        self.ca_pem = ca.cert_pem.bytes()
        self.reviews: list[Object] = []
        self._answer = answer
        self._server = _Server(self._handle)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(context)
        # Not in the accepting thread: a client that says nothing would hold up all others.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)

    @property
    def url(self) -> str:
        """For clientConfig.url."""
        return f"https://127.0.0.1:{self._server.server_address[1]}/mutate"

    def _handle(self, body: bytes) -> bytes:
        self.reviews.append(json.loads(body))
        return self._answer(body)

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def patching(change: Callable[[Object], list[Object]]) -> Answer:
    """Admit with the JSON Patch that `change` makes of the object; an empty list changes nothing."""

    def answer(body: bytes) -> bytes:
        request = json.loads(body)["request"]
        response: Object = {"uid": request["uid"], "allowed": True}
        if patch := change(request["object"]):
            text = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": text}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return json.dumps(review).encode()

    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handle: Answer) -> None:
        self.handle = handle
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Answer one review; the client may have gone meanwhile."""
        body = self.server.handle(self.rfile.read(int(self.headers["Content-Length"])))
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet: stderr belongs to the tests."""
