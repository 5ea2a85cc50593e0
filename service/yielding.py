"""Long walks in slices, so that no step of the event loop is long however many nodes and pods there are.

What is walked may change between two slices. Each part is as it was when its turn came, and walks that need
more than that say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

NODES_AT_ONCE = 16
"""Nodes that are shown or written in one step."""
FACTS_AT_ONCE = 64
"""Nodes or pods that are taken in, looked at or forgotten in one step."""


STINT_SECONDS = 0.002
"""How long decisions are made before others get a turn."""


class Stint:
    """Decisions in a row that let others run whenever they have taken a while."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._until = clock() + STINT_SECONDS

    async def pause(self) -> None:
        """Let everything else that is ready run, if it is time."""
        if self._clock() >= self._until:
            await asyncio.sleep(0)
            self._until = self._clock() + STINT_SECONDS


class Turns:
    """One slice of one walk in each step of the loop: walks that run at the same time take turns."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Let everything else that is ready run, other walks' slices included."""
        async with self._lock:
            await asyncio.sleep(0)

    async def slices(self, items: Sequence[Item], size: int = FACTS_AT_ONCE) -> AsyncIterator[Sequence[Item]]:
        """Give so many items at a time, each slice in a step of its own."""
        for start in range(0, len(items), size):
            await self.next()
            yield items[start : start + size]
