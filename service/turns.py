"""Some of many: namespaces take turns, so that one with many items does not keep those of others waiting."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Generic, TypeVar

Item = TypeVar("Item")

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


@dataclass(slots=True)
class _Refused:
    until: float
    seconds: float


class Turns(Generic[Item]):
    """Chooses some of the items that wait, step by step; an item that was refused pauses, longer each time.

    Args:
        namespace_of: returns an item's namespace.
        key_of: returns an item's identity.
        pause_seconds: the first pause; the next ones are twice as long each.
        max_pause_seconds: the longest pause.
    """

    def __init__(
        self,
        namespace_of: Callable[[Item], str],
        key_of: Callable[[Item], Hashable],
        pause_seconds: float,
        max_pause_seconds: float = MAX_PAUSE_SECONDS,
    ) -> None:
        self._namespace_of = namespace_of
        self._key_of = key_of
        self._pause_seconds = pause_seconds
        self._max_pause_seconds = max_pause_seconds
        self._steps = 0
        self._served: dict[str, float] = {}
        self._tried: dict[Hashable, float] = {}
        self._refused: dict[Hashable, _Refused] = {}

    def some(self, items: Iterable[Item], most: int, now: float) -> list[Item]:
        """Choose at most `most` items that do not pause: those that were never chosen, or longest ago."""
        due = [item for item in items if not self.pauses(item, now)]
        oldest = sorted(due, key=lambda item: self._tried.get(self._key_of(item), float("-inf")))
        chosen = in_turn(oldest, self._namespace_of, self._served)[:most]
        self._steps += 1
        for item in chosen:
            self._tried[self._key_of(item)] = self._served[self._namespace_of(item)] = self._steps
        return chosen

    def refused(self, item: Item, now: float) -> None:
        """Let an item pause."""
        key = self._key_of(item)
        known = self._refused.get(key)
        seconds = min(2 * known.seconds, self._max_pause_seconds) if known else self._pause_seconds
        self._refused[key] = _Refused(now + seconds, seconds)

    def accepted(self, item: Item) -> None:
        """Let the next pause of an item be a first one again."""
        self._refused.pop(self._key_of(item), None)

    def paused(self, now: float) -> frozenset[Hashable]:
        """Return the identities of all items that pause."""
        return frozenset([key for key, known in self._refused.items() if now < known.until])

    def keep(self, items: Collection[Item]) -> None:
        """Forget all but these items, and all but their namespaces."""
        keys, names = set(map(self._key_of, items)), set(map(self._namespace_of, items))
        self._tried = {key: at for key, at in self._tried.items() if key in keys}
        self._refused = {key: each for key, each in self._refused.items() if key in keys}
        self._served = {name: at for name, at in self._served.items() if name in names}

    def pauses(self, item: Item, now: float) -> bool:
        """Whether an item was refused, and is not to be tried now."""
        known = self._refused.get(self._key_of(item))
        return known is not None and now < known.until


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
        self._length = 0
        self._filled = asyncio.Event()

    def put(self, item: Item) -> Item | None:
        """Add an item; if there are too many, return the newest of the namespace with most: it is lost."""
        self._queues.setdefault(self._namespace_of(item), deque()).append(item)
        self._length += 1
        self._filled.set()
        if self._length <= self._most:
            return None
        return self._taken(max(self._queues, key=lambda name: len(self._queues[name])), newest=True)

    async def get(self) -> Item:
        """Wait for the next item, and remove it."""
        await self._filled.wait()
        name = next(iter(self._queues))
        item = self._taken(name)
        if (queue := self._queues.pop(name, None)) is not None:
            self._queues[name] = queue
        return item

    def clear(self) -> None:
        """Remove all items."""
        self._queues, self._length = {}, 0
        self._filled.clear()

    def _taken(self, name: str, *, newest: bool = False) -> Item:
        queue = self._queues[name]
        item = queue.pop() if newest else queue.popleft()
        if not queue:
            del self._queues[name]
        self._length -= 1
        if not self._length:
            self._filled.clear()
        return item
