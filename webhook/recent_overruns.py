"""Namespaces whose reviews recently took too long in the event loop: workers decide theirs for a while.

Otherwise many such pods at once would delay all reviews, a few milliseconds each.
"""

from __future__ import annotations

SECONDS = 10.0
MAX_NAMESPACES = 256


class RecentOverruns(dict[str, float]):
    """When each namespace is free again. Callers first check if the dictionary is empty: mostly it is."""

    __slots__ = ()

    def note(self, namespace: str, now: float) -> None:
        """Leave the reviews of a namespace to workers from `now` on."""
        self.pop(namespace, None)
        if len(self) >= MAX_NAMESPACES:
            del self[next(iter(self))]
        self[namespace] = now + SECONDS

    def hold(self, namespace: str, now: float) -> bool:
        """Whether workers decide the reviews of a namespace."""
        until = self.get(namespace)
        if until is None:
            return False
        if now < until:
            return True
        del self[namespace]
        return False
