"""The stream of one viewer: every node, then those that change, and the panels.

A slow reader is waited for, and what changes meanwhile is kept as names, each once: no bytes pile up, and
nobody else waits. Of what was sent a number is kept for each node. A reader that takes nothing for 10 s is
cut off by its connection (service/connection.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
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
from web.source import About, Door, PageRefusedError, PageSource, Viewer

MAX_STREAMS = 16
GATHER_SECONDS = 0.25
"""Changes within so short a time go out together."""
BEAT_SECONDS = 1.0
"""A stream is never silent for longer, so that the page knows a dead one."""
ADMITTED_SECONDS = 30.0
"""How long a viewer's right is taken for granted while he looks."""
_encode = msgspec.json.Encoder().encode


class Streams:
    """All streams of one page."""

    def __init__(self, source: PageSource, about: About, door: Door) -> None:
        self._source = source
        self._about = about
        self._door = door
        self._panels = PanelMaker(source, about)
        self._open = 0
        self._stopping = False

    def stop(self) -> None:
        """End all streams, so that the server can drain."""
        self._stopping = True

    async def serve(self, scope: Scope, receive: Receive, send: Send, token: str, namespace: str) -> None:
        """Serve one stream until its reader goes; 503 where there are enough already."""
        if self._open >= MAX_STREAMS:
            text = f"{MAX_STREAMS} viewers are here already: close one, or try again later\n"
            await PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        self._open += 1
        changes = self._source.subscribe()
        try:
            viewer = await self._door.admit(token, namespace)
            events = self._events(changes, viewer, token, namespace)
            await EventSourceResponse(events, headers={"cache-control": "no-store"})(scope, receive, send)
        except PageRefusedError as error:
            await PlainTextResponse(f"{error}\n", error.status)(scope, receive, send)
        finally:
            self._source.unsubscribe(changes)
            self._open -= 1
            if not self._open:
                self._panels.rest()

    async def _events(
        self, changes: Changes, viewer: Viewer, token: str, namespace: str
    ) -> AsyncIterator[bytes]:
        admitted, shown = time.monotonic(), None
        sent: dict[str, int] = {}
        yield _event("begin", viewer.namespace)
        async for part in self._rows(changes, viewer, sent):
            yield part
        yield _event("whole", None)
        while not self._stopping:
            if time.monotonic() - admitted > ADMITTED_SECONDS:
                if (refusal := await self._refusal(token, namespace, viewer)) is not None:
                    yield _event("refused", refusal)
                    return
                admitted = time.monotonic()
            panels: Panels = await self._panels.of(viewer)
            yield _event("panels", panels) if panels != shown else _event("beat", None)
            shown = panels
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS - GATHER_SECONDS):
                    await changes.wait()
            await asyncio.sleep(GATHER_SECONDS)
            async for part in self._rows(changes, viewer, sent):
                yield part

    async def _refusal(self, token: str, namespace: str, viewer: Viewer) -> str | None:
        """Return why a viewer may no longer see what he sees."""
        try:
            found = await self._door.admit(token, namespace)
        except PageRefusedError as error:
            return str(error)
        return None if found == viewer else "your rights have changed: load the page again"

    async def _rows(self, changes: Changes, viewer: Viewer, sent: dict[str, int]) -> AsyncIterator[bytes]:
        """Give the rows that are not as they were sent: CPU or memory alone of a node change none."""
        async for names in self._source.turns.slices(changes.take(), NODES_AT_ONCE):
            rows = [(name, _encode(self._row(name, viewer))) for name in names]
            fresh = [(name, row) for name, row in rows if sent.get(name) != hash(row)]
            sent.update((name, hash(row)) for name, row in fresh)
            if fresh:
                yield _event("rows", msgspec.Raw(b"[%b]" % b",".join([row for _, row in fresh])))

    def _row(self, name: str, viewer: Viewer) -> NodeRow:
        view = self._source.ledger.node(name)
        return NodeRow(name, gone=True) if view is None else node_row(view, viewer, self._about.created)


def _event(name: str, data: object) -> bytes:
    # JSON holds no line break of its own, so that nothing that a user wrote can end an event.
    return format_sse_event(event=name, data_str=_encode(data).decode())
