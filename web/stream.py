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
from web.places import NoPlaceError, Place, Places
from web.rows import NodeRow, node_row
from web.source import About, Authorizer, PageRefusedError, PageSource, Viewer

GATHER_SECONDS = 0.25
"""Changes within so short a time go out together."""
BEAT_SECONDS = 1.0
"""A stream is never silent for longer, so that the page knows a dead one."""
ADMITTED_SECONDS = 30.0
"""How long a viewer's right is taken for granted while he looks."""
_encode = msgspec.json.Encoder().encode


class Streams:
    """All streams of one page."""

    def __init__(self, source: PageSource, about: About, authorizer: Authorizer) -> None:
        self._source = source
        self._about = about
        self._authorizer = authorizer
        self._panels = PanelMaker(source, about)
        self._places = Places()
        self._stopping = False

    def stop(self) -> None:
        """End all streams, so that the server can drain."""
        self._stopping = True

    async def serve(self, scope: Scope, receive: Receive, send: Send, token: str, namespace: str) -> None:
        """Serve one stream until its reader goes; 503 where there are enough already."""
        # A stranger takes no place, and costs no walk over the nodes.
        try:
            viewer = await self._authorizer.authorize(token, namespace)
        except PageRefusedError as error:
            await PlainTextResponse(f"{error}\n", error.status)(scope, receive, send)
            return
        try:
            place = self._places.take(viewer.namespace)
        except NoPlaceError as error:
            text = f"{error}: close one, or try again later\n"
            await PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        changes = self._source.subscribe()
        try:
            events = self._while_admitted(self._events(changes, viewer), place, viewer, token, namespace)
            await EventSourceResponse(events, headers={"cache-control": "no-store"})(scope, receive, send)
        finally:
            self._source.unsubscribe(changes)
            self._places.give_back(place)
            if self._places.are_empty:
                self._panels.rest()

    async def _while_admitted(
        self, events: AsyncIterator[bytes], place: Place, viewer: Viewer, token: str, namespace: str
    ) -> AsyncIterator[bytes]:
        """Give events while a viewer may see them: a slow reader gets the first rows for many minutes."""
        admitted = time.monotonic()
        async for event in events:
            if place.is_lost:
                return
            if time.monotonic() - admitted > ADMITTED_SECONDS:
                try:
                    found = await self._authorizer.authorize(token, namespace)
                except PageRefusedError as error:
                    # Where nobody can say now, the token may well be good: the page asks again with it.
                    if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                        yield _event("refused", str(error))
                    return
                if found != viewer:
                    yield _event("refused", "your rights have changed: load the page again")
                    return
                admitted = time.monotonic()
            yield event

    async def _events(self, changes: Changes, viewer: Viewer) -> AsyncIterator[bytes]:
        shown = None
        sent: dict[str, int] = {}
        yield _event("begin", viewer.namespace)
        async for part in self._rows(changes, viewer, sent):
            yield part
        yield _event("whole", None)
        while not self._stopping:
            panels: Panels = await self._panels.of(viewer)
            yield _event("panels", panels) if panels != shown else _event("beat", None)
            shown = panels
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS - GATHER_SECONDS):
                    await changes.wait()
            await asyncio.sleep(GATHER_SECONDS)
            async for part in self._rows(changes, viewer, sent):
                yield part

    async def _rows(self, changes: Changes, viewer: Viewer, sent: dict[str, int]) -> AsyncIterator[bytes]:
        """Give the rows that are not as they were sent: CPU or memory alone of a node change none."""
        async for names in self._source.turns.slices(changes.take(), NODES_AT_ONCE):
            rows = [row for name in names if (row := self._fresh_row(name, viewer, sent)) is not None]
            if rows:
                yield _event("rows", msgspec.Raw(b"[%b]" % b",".join(rows)))

    def _fresh_row(self, name: str, viewer: Viewer, sent: dict[str, int]) -> bytes | None:
        view = self._source.ledger.node(name)
        if view is None:
            # Clusters that grow and shrink give every node a new name: of those gone nothing is kept.
            return _encode(NodeRow(name, gone=True)) if sent.pop(name, None) is not None else None
        row = _encode(node_row(view, viewer, self._about.created))
        before, sent[name] = sent.get(name), hash(row)
        return row if before != sent[name] else None


def _event(name: str, data: object) -> bytes:
    # JSON holds no line break of its own, so that nothing that a user wrote can end an event.
    return format_sse_event(event=name, data_str=_encode(data).decode())
