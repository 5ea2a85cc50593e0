"""Follows the controller's stream, so that pods can be placed when the controller is away."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import msgspec

from ledger.messages import NodeState, StreamEvent
from ledger.view import PendingView
from webhook.placing.client import ControllerClient
from webhook.placing.fallback import Fallback
from webhook.placing.running_time import running_timeout

SILENCE_SECONDS = 5.0
"""The controller never leaves a stream silent for more than a second."""
CONNECT_SECONDS = 2.0
PAUSE_SECONDS = 0.5
_DATA = b"data: "

_decoder = msgspec.json.Decoder(StreamEvent)


class SnapshotFollower:
    """Keeps a fallback at the controller's latest data."""

    def __init__(self, client: ControllerClient, fallback: Fallback) -> None:
        self._client = client
        self._fallback = fallback

    async def run(self) -> None:
        """Follow the stream until cancelled; known data stays while nothing answers."""
        while True:
            # The placer, which has more requests, reports whether the controller answers.
            with suppress(OSError, ValueError, TimeoutError):
                await self._follow()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self) -> None:
        async with running_timeout(CONNECT_SECONDS):
            connection = await self._client.stream()
        try:
            beginning = _Beginning(self._fallback)
            async with aclosing(connection.stream("/v1/ledger/stream", SILENCE_SECONDS)) as lines:
                async for line in lines:
                    if line.startswith(_DATA):
                        await beginning.take(_decoder.decode(line[len(_DATA) :]))
                    beginning.mark_live()
        finally:
            connection.close()


class _Beginning:
    """Collects the start of a stream until it is complete, then passes events on."""

    def __init__(self, fallback: Fallback) -> None:
        self._fallback = fallback
        self._nodes: dict[str, NodeState] = {}
        self._pending: tuple[PendingView, ...] = ()
        self._whole = False

    def mark_live(self) -> None:
        """Record that the stream is live; before the start is complete, that says nothing about its data."""
        if self._whole:
            self._fallback.mark_live()

    async def take(self, event: StreamEvent) -> None:
        if self._whole:
            self._pass_on(event)
        elif event.node is not None:
            self._nodes[event.node.fact.name] = event.node
        elif event.backlog is not None:
            self._pending = event.backlog
        elif event.synced:
            await self._fallback.replace(self._nodes, self._pending)
            self._nodes = {}
            self._whole = True

    def _pass_on(self, event: StreamEvent) -> None:
        if event.node is not None:
            self._fallback.set_node(event.node)
        if event.gone is not None:
            self._fallback.remove_node(event.gone)
        if event.backlog is not None:
            self._fallback.set_backlog(event.backlog)
