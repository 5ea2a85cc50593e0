"""Follows the controller's stream, so that pods can be placed when the controller is away."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import msgspec

from ledger.messages import StreamEvent
from webhook.placing.client import ControllerClient
from webhook.placing.fallback import Fallback

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
        stream = self._client.stream("/v1/ledger/stream", CONNECT_SECONDS, SILENCE_SECONDS)
        async with aclosing(stream) as lines:
            self._fallback.begin_stream()
            async for line in lines:
                if line.startswith(_DATA):
                    await self._fallback.take(_decoder.decode(line[len(_DATA) :]))
                self._fallback.mark_live()
