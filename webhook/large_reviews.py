"""Bounds the large reviews that are read, decided or placed at the same time. The others wait unread."""

from __future__ import annotations

import re
from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from service.yielding import CooperativeYield

START_BYTES = 4096
"""Of a body, in which an API server names the namespace: before it comes little but the object's name."""
OF_A_NAMESPACE = 4
IN_ALL = 16

_NAMESPACE = re.compile(rb'"namespace"\s*:\s*"([a-z0-9-]{1,63})"')
"""A name of an object cannot spell it: JSON writes its quotation marks with a backslash."""


class LargeReviews:
    """Gives large reviews a place; namespaces take turns.

    Only four reviews of a namespace wait for one of all places, in the order in which they came. So a review
    of another namespace never waits for a whole flood.
    """

    def __init__(self) -> None:
        self._all = Semaphore(IN_ALL)
        self._own: WeakValueDictionary[bytes, Semaphore] = WeakValueDictionary()
        self._steps = CooperativeYield()

    @asynccontextmanager
    async def place(self, start: bytes) -> AsyncIterator[None]:
        """Wait for a place, and hold it.

        Args:
            start: of the review's body. What names no namespace there counts for one together.
        """
        named = _NAMESPACE.search(start[:START_BYTES])
        own = self._own.setdefault(named[1] if named is not None else b"", Semaphore(OF_A_NAMESPACE))
        async with own, self._all:
            yield

    async def turn(self) -> None:
        """Wait until this review may be decided: one in each step of the event loop."""
        await self._steps.step()
