"""Health of a watch: whether it receives anything, and up to when the known state is complete."""

from __future__ import annotations

import time
from collections.abc import Callable

UNHEALTHY_AFTER_SECONDS = 10.0
"""A watch that fails for longer is unhealthy. An API server restarts in less time."""
CATCH_UP_SECONDS = 5.0
"""After a silence, the API server first sends what happened meanwhile; by then it has."""
MAX_REASON = 160
"""Characters of a failure's reason."""


class WatchHealth:
    """When a watch last received something, and whether its objects can still be trusted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._observed_at = clock()
        self._resumed_at = self._observed_at
        self._known_before = self._observed_at
        self._failure = ""

    def answered(self) -> None:
        """Record that a page of a list was received."""
        self._failure = ""

    def observed(self) -> None:
        """Record that an event, a bookmark or the last page of a list was received."""
        now = self._clock()
        if now - self._observed_at > CATCH_UP_SECONDS:
            self._known_before, self._resumed_at = self.known_until, now
        self._observed_at = now
        self._failure = ""

    def failed(self, reason: str) -> None:
        """Record that a list or watch was rejected, broke, or was silent for too long."""
        self._failure = reason[:MAX_REASON]

    @property
    def known_until(self) -> float:
        """Time up to which everything that happened is known."""
        if self._clock() - self._resumed_at < CATCH_UP_SECONDS:
            return self._known_before
        return self._observed_at

    @property
    def fault(self) -> str | None:
        """Why the known state is out of date; None if the watch is healthy."""
        silent = self._clock() - self._observed_at
        if not self._failure or silent <= UNHEALTHY_AFTER_SECONDS:
            return None
        return f"no event for {silent:.0f} s: {self._failure}"
