"""Keeps what walks over all nodes find, because many pods wait for the same."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from kube.scheduling import Constraints

KEPT_SECONDS = 3.0
"""Longer if walks for all that is kept take longer: so those for others have a turn."""
MAX_KEPT = 256
_Found = TypeVar("_Found")


class Walks(Generic[_Found]):
    """What walks have found, at most some seconds old.

    Args:
        clock: seconds of a monotonic clock.
        pause_seconds: time between two walks; with 0, no pod has to wait for one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, pause_seconds: float = 0.0) -> None:
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._kept: OrderedDict[Hashable, tuple[float, _Found]] = OrderedDict()
        self._next_walk = float("-inf")

    async def find(self, kind: Hashable, walk: Callable[[], Awaitable[_Found]]) -> _Found | None:
        """Return what `walk` finds for pods of a kind; None if they have to wait for it."""
        now = self._clock()
        kept = self._kept.get(kind)
        if (kept is None or kept[0] <= now) and now >= self._next_walk:
            seconds = max(KEPT_SECONDS, 2 * self._pause_seconds * len(self._kept))
            kept = self._kept[kind] = now + seconds, await walk()
            # Counted from the end, because a walk over many nodes may itself take that long.
            self._next_walk = self._clock() + self._pause_seconds
            self._kept.move_to_end(kind)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept[1] if kept is not None else None


def digest_of(demands: Constraints) -> bytes:
    """Return what is equal for pods with equal demands on their node."""
    return hashlib.sha256(msgspec.json.encode(demands)).digest()[:16]
