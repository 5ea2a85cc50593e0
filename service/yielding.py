"""Divides long walks into steps, to keep each step of the event loop short with many nodes and pods.

The items may change between two steps: each is read when its step runs. A walk that needs a consistent view
must see to it itself.
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
"""Nodes or pods that are added, checked or removed in one step."""


TIME_SLICE_SECONDS = 0.002
"""How long decisions run before other tasks may run."""


class TimeSlice:
    """A series of decisions that lets other tasks run whenever its time slice is over."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._until = clock() + TIME_SLICE_SECONDS

    async def pause(self) -> None:
        """Let all other ready tasks run, if the time slice is over."""
        if self._clock() >= self._until:
            await asyncio.sleep(0)
            self._until = self._clock() + TIME_SLICE_SECONDS


class CooperativeYield:
    """Gives each step of the loop one part of one walk: concurrent walks alternate."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def step(self) -> None:
        """Let all other ready tasks run, including the steps of other walks."""
        async with self._lock:
            await asyncio.sleep(0)

    async def batches(
        self, items: Sequence[Item], size: int = FACTS_AT_ONCE
    ) -> AsyncIterator[Sequence[Item]]:
        """Yield up to `size` items at a time, each part in its own step."""
        for start in range(0, len(items), size):
            await self.step()
            yield items[start : start + size]
