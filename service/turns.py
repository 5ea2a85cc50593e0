"""Some of many: namespaces take turns, so that one with many items does not keep those of others waiting."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import chain, zip_longest
from typing import Generic, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

MAX_PAUSE_SECONDS = 3600.0


def in_turn(
    items: Iterable[Item], namespace_of: Callable[[Item], str], last: Mapping[str, float]
) -> list[Item]:
    """Return one item of each namespace, then the next one of each.

    Args:
        items: the longest waiting first.
        namespace_of: returns an item's namespace.
        last: when each namespace was last served; the least recently served comes first.
    """
    queues = defaultdict[str, list[Item]](list)
    for item in items:
        queues[namespace_of(item)].append(item)
    names = sorted(queues, key=lambda name: last.get(name, float("-inf")))
    rounds = zip_longest(*(queues[name] for name in names))
    return [item for item in chain.from_iterable(rounds) if item is not None]


class Pauses(Generic[Key]):
    """Keys that were refused: each pauses, longer each time until it is accepted.

    Args:
        pause_seconds: the first pause; the next ones are twice as long each.
        max_pause_seconds: the longest pause.
    """

    def __init__(self, pause_seconds: float, max_pause_seconds: float = MAX_PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self._max_pause_seconds = max_pause_seconds
        self._refused: dict[Key, tuple[float, float]] = {}
        """End of each key's pause, and its seconds."""

    def refused(self, key: Key, now: float) -> None:
        """Let a key pause."""
        _, before = self._refused.get(key, (0.0, self._pause_seconds / 2))
        seconds = min(2 * before, self._max_pause_seconds)
        self._refused[key] = now + seconds, seconds

    def accepted(self, key: Key) -> None:
        """Let the next pause of a key be a first one again."""
        self._refused.pop(key, None)

    def paused(self, now: float) -> frozenset[Key]:
        """Return all keys that pause."""
        return frozenset([key for key in self._refused if self.pauses(key, now)])

    def pauses(self, key: Key, now: float) -> bool:
        """Whether a key was refused, and is not to be tried now."""
        return now < self.until(key)

    def until(self, key: Key) -> float:
        """Return the end of a key's last pause; minus infinity if it was not refused."""
        return self._refused.get(key, (float("-inf"), 0.0))[0]

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all but these keys."""
        self._refused = {key: self._refused[key] for key in self._refused.keys() & set(keys)}


class TurnQueue(Generic[Item]):
    """A queue of bounded length whose namespaces alternate.

    Args:
        most: its maximum length.
        namespace_of: returns an item's namespace.
    """

    def __init__(self, most: int, namespace_of: Callable[[Item], str]) -> None:
        self._most = most
        self._namespace_of = namespace_of
        self._queues: dict[str, deque[Item]] = {}
        """By namespace, the next one first; none is empty."""
        self._filled = asyncio.Event()

    def put(self, item: Item) -> Item | None:
        """Add an item; if there are too many, return the newest of the namespace with most: it is lost."""
        self._queues.setdefault(self._namespace_of(item), deque()).append(item)
        self._filled.set()
        if sum(map(len, self._queues.values())) <= self._most:
            return None
        name = max(self._queues, key=lambda name: len(self._queues[name]))
        lost = self._queues[name].pop()
        if not self._queues[name]:
            del self._queues[name]
        return lost

    async def get(self) -> Item:
        """Wait for the next item, and remove it."""
        await self._filled.wait()
        name = next(iter(self._queues))
        queue = self._queues.pop(name)
        item = queue.popleft()
        if queue:
            self._queues[name] = queue
        elif not self._queues:
            self._filled.clear()
        return item

    def clear(self) -> None:
        """Remove all items."""
        self._queues.clear()
        self._filled.clear()
