"""Backoff: how long to wait before the next attempt, longer each time, and different for each replica."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Waits that double, with jitter over their upper half."""

    first_seconds: float = 0.25
    max_seconds: float = 30.0
    random: random.Random = field(default_factory=random.Random)
    _next: float = 0.0

    def reset(self) -> None:
        """Return to the first wait, after a successful attempt."""
        self._next = 0.0

    def next(self, at_least: float | None = None) -> float:
        """Return the seconds to wait now; `at_least` if a server asked for it."""
        self._next = min(self.max_seconds, max(self.first_seconds, 2 * self._next))
        return max(at_least or 0.0, self._next * self.random.uniform(0.5, 1.0))
