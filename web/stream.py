"""The stream of one viewer: every node, then those that change, and the panels.

The server waits for a slow reader and keeps only the names of changed nodes, each once: no bytes pile up,
and nobody else waits. For each node it keeps one number of what was sent. The connection of a reader that
accepts nothing for 10 s is cut (service/http/connection.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus

import msgspec
from fastapi.responses import PlainTextResponse
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from service.changes import Changes
from service.yielding import NODES_AT_ONCE
from web.panels import PanelMaker, Panels
from web.rows import NodeRow, node_row
from web.source import About, PageSource

GATHER_SECONDS = 0.25
"""Changes within this time are sent together."""
BEAT_SECONDS = 1.0
"""A stream is never silent for longer, so that the page can detect a dead one."""
MAX_VIEWERS = 16
_encode = msgspec.json.Encoder().encode


class Streams:
    """All streams of one page."""

    def __init__(self, source: PageSource, about: About) -> None:
        self._source = source
        self._about = about
        self._panels = PanelMaker(source, about)
        self._viewers = 0
        self._stopping = False

    def stop(self) -> None:
        """End all streams, so that the server can drain."""
        self._stopping = True

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its reader leaves; 503 if there are too many."""
        if self._viewers >= MAX_VIEWERS:
            text = f"there are {MAX_VIEWERS} viewers already: close one, or try again later\n"
            await PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        self._viewers += 1
        changes = self._source.subscribe()
        changes.follows_uses = True
        try:
            events = self._events(changes)
            await EventSourceResponse(events, headers={"cache-control": "no-store"})(scope, receive, send)
        finally:
            self._source.unsubscribe(changes)
            self._viewers -= 1

    async def _events(self, changes: Changes) -> AsyncIterator[bytes]:
        shown = None
        sent: dict[str, int] = {}
        yield _event("begin", None)
        yield _event("about", {"cluster": self._about.cluster, "links": self._about.links})
        async for part in self._rows(changes, sent):
            yield part
        yield _event("whole", None)
        while not self._stopping:
            panels: Panels = await self._panels.newest()
            yield _event("panels", panels) if panels != shown else _event("beat", None)
            shown = panels
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS - GATHER_SECONDS):
                    await changes.wait()
            await asyncio.sleep(GATHER_SECONDS)
            async for part in self._rows(changes, sent):
                yield part

    async def _rows(self, changes: Changes, sent: dict[str, int]) -> AsyncIterator[bytes]:
        """Yield the rows that differ from what was sent: CPU or memory changes of a node do not show."""
        async for names in self._source.yielding.batches(changes.take(), NODES_AT_ONCE):
            rows = [row for name in names if (row := self._fresh_row(name, sent)) is not None]
            if rows:
                yield _event("rows", msgspec.Raw(b"[%b]" % b",".join(rows)))

    def _fresh_row(self, name: str, sent: dict[str, int]) -> bytes | None:
        view = self._source.ledger.node(name)
        if view is None:
            # Clusters that grow and shrink give every node a new name, so nothing is kept of removed nodes.
            return _encode(NodeRow(name, gone=True)) if sent.pop(name, None) is not None else None
        row = _encode(node_row(view, self._about))
        before, sent[name] = sent.get(name), hash(row)
        return row if before != sent[name] else None


def _event(name: str, data: object) -> bytes:
    # JSON contains no line breaks, so no text of a user can end an event.
    return format_sse_event(event=name, data_str=_encode(data).decode())
