"""A queue of names that are due for work: each is handled once at a time, the earliest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class WorkQueue:
    """When each name may be handled. A name that changes while it is handled is due again afterwards."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._taken: set[str] = set()
        self._again: dict[str, float] = {}

    def add(self, name: str, at: float) -> None:
        """Add a name, due at `at`; an earlier time that was set before stays."""
        if name in self._taken:
            self._again.setdefault(name, at)
        elif name not in self._at:
            self._at[name] = at
            heapq.heappush(self._heap, (at, name))

    def take(self, now: float) -> Iterator[str]:
        """Yield the due names; each belongs to the caller until `done`."""
        while self._heap and self._heap[0][0] <= now:
            _, name = heapq.heappop(self._heap)
            del self._at[name]
            self._taken.add(name)
            yield name

    def done(self, name: str, not_before: float) -> None:
        """Return a name; if it changed meanwhile, it is due again, but not before `not_before`."""
        self._taken.discard(name)
        if name in self._again:
            self.add(name, max(not_before, self._again.pop(name)))

    def next(self) -> float | None:
        """When the next name is due; None if there is none."""
        return self._heap[0][0] if self._heap else None
