"""How far a watch can be trusted: whether it is heard, and up to when what is known is known to be true."""

from __future__ import annotations

import time
from collections.abc import Callable

ILL_AFTER_SECONDS = 10.0
"""A watch that fails for so long without being heard is ill. An API server that restarts takes less."""
CATCH_UP_SECONDS = 5.0
"""After a silence, what happened meanwhile is told first; it has been told by then."""
MAX_REASON = 160
"""Characters."""


class WatchHealth:
    """What one watch has heard, and when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._resumed_at = self._heard_at
        self._known_before = self._heard_at
        self._failure = ""

    def answered(self) -> None:
        """Note that a page of a list has come: the rest is on its way."""
        self._failure = ""

    def heard(self) -> None:
        """Note that the API server has told an object or a bookmark, or a list to its end."""
        now = self._clock()
        if now - self._heard_at > CATCH_UP_SECONDS:
            self._known_before, self._resumed_at = self.known_until, now
        self._heard_at = now
        self._failure = ""

    def failed(self, reason: str) -> None:
        """Note that a list or watch was refused, broke, or was silent for too long."""
        self._failure = reason[:MAX_REASON]

    @property
    def known_until(self) -> float:
        """The moment up to which everything that happened has been heard of."""
        if self._clock() - self._resumed_at < CATCH_UP_SECONDS:
            return self._known_before
        return self._heard_at

    @property
    def illness(self) -> str | None:
        """Why what is known is out of date; None while the watch is well."""
        silent = self._clock() - self._heard_at
        if not self._failure or silent <= ILL_AFTER_SECONDS:
            return None
        return f"nothing heard for {silent:.0f} s: {self._failure}"
