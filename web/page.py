"""The page's HTTP interface: one document, one module, one style sheet, one stream.

| request | answer |
|---|---|
| `GET /` | the document, without data of the cluster |
| `GET /page.js`, `/page.css`, `/icon.svg` | its parts |
| `GET /stream` | server-sent events; 503 until the ledger is whole |
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from web.source import About, PageSource
from web.stream import Streams

FILES = Path(__file__).parent / "files"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Page:
    """An ASGI app that shows one ledger, to who reaches it under a name of this machine."""

    def __init__(self, source: PageSource, about: About) -> None:
        self._source = source
        self._streams = Streams(source, about)
        self._parts = {f"/{file.name}": _part(file) for file in FILES.iterdir() if file.suffix in _TYPES}
        self._parts["/"] = HTMLResponse((FILES / "page.html").read_text(), headers=HEADERS)

    def stop(self) -> None:
        """End all streams, so that the server can drain."""
        self._streams.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if (refusal := self._refusal(scope, headers)) is not None:
            await refusal(scope, receive, send)
        elif scope["path"] == "/stream":
            await self._streams.serve(scope, receive, _with_headers(send))
        else:
            await self._parts[scope["path"]](scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Response | None:
        """Return the error response to an invalid request; None for a valid one."""
        if not _is_loopback(headers.get(b"host", "")):
            return _text(HTTPStatus.MISDIRECTED_REQUEST, "open this page as http://localhost:PORT/")
        is_stream = scope["path"] == "/stream"
        if not is_stream and scope["path"] not in self._parts:
            return _text(HTTPStatus.NOT_FOUND, "not found: open /")
        # HEAD of a stream would never end.
        if scope["method"] not in ({"GET"} if is_stream else {"GET", "HEAD"}):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is allowed here")
        # Other sites may link to the page, but only the page may read the cluster's data.
        if is_stream and headers.get(b"sec-fetch-site", "none") not in {"none", "same-origin"}:
            return _text(HTTPStatus.FORBIDDEN, "the request comes from another site: open this page directly")
        if is_stream and self._source.missing is not None:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, self._source.missing)
        return None


def _part(file: Path) -> Response:
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix], headers=HEADERS)


def _text(status: HTTPStatus, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers=HEADERS)


def _is_loopback(host: str) -> bool:
    """Whether the browser uses a name of this machine: other names may be another site's (DNS rebinding)."""
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK_NAMES
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in known)]
        await send(message)

    return sending
