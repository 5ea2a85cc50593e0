"""How long nodes that were divided are left as they are.

The time of the last division stands on the node, so that a controller that follows knows it. What is left of
a pause is computed once, when that time is first seen: wall clocks jump, and differ between controllers.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

PAUSE_SECONDS = 600.0
"""A division costs a node about three minutes without new pods: a quarter of its time at most.

`python -m bench.mig --pause` shows what a pause costs: nothing up to 900, a third more waiting at 1800.
"""


def time_text(seconds: float) -> str:
    """Return a time, in Unix seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Pauses:
    """When each node may be divided again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, tuple[str, float, str]] = {}
        """By node the time that it shows, and the end of the pause: by the process's own clock, as a text."""

    def until(self, node: str, divided_at: str | None, now: float, wall: float) -> float | None:
        """Return when a node's pause ends, by the clock of `now`; None where it is over.

        Args:
            node: Its name.
            divided_at: The time of its last division as its annotation says it.
            now: Seconds that never run back.
            wall: Unix seconds at this moment.
        """
        if divided_at is None:
            self._until.pop(node, None)
            return None
        known = self._until.get(node)
        if known is None or known[0] != divided_at:
            left = self._left(divided_at, wall)
            known = self._until[node] = divided_at, now + left, time_text(wall + left)
        return known[1] if known[1] > now else None

    def end(self, node: str) -> str:
        """Return when the pause of a node that pauses ends, for people: the same as long as it lasts."""
        known = self._until.get(node)
        return known[2] if known is not None else "now"

    def count(self, now: float) -> int:
        """Return how many nodes pause."""
        return sum([until > now for _, until, _ in self._until.values()])

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the nodes that are not named."""
        for name in self._until.keys() - set(nodes):
            del self._until[name]

    def _left(self, divided_at: str, wall: float) -> float:
        """Seconds that are left, never more than a whole pause; 0 for a text that is no time."""
        try:
            at = datetime.fromisoformat(divided_at).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
        return min(max(0.0, at + self._seconds - wall), self._seconds)
