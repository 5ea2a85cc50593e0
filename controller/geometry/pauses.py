"""How long the cards of a divided node stay unchanged.

The time of the last division is an annotation on the node, so a new controller knows it. The rest of a pause
is computed once, when that time is first seen, because wall clocks jump and differ between controllers.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

PAUSE_SECONDS = 600.0
"""A division costs a node about three minutes without new pods: at most a quarter of its time.

A simulation showed what a pause costs: nothing up to 900, a third more waiting at 1800.
"""


def time_text(seconds: float) -> str:
    """Return Unix seconds in the format of Kubernetes timestamps."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Pauses:
    """When each node may be divided again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, tuple[str, float, str]] = {}
        """By node: the annotated time, and the end of the pause, by the process's clock and as text."""

    def until(self, node: str, divided_at: str | None, now: float, wall: float) -> float | None:
        """Return when a node's pause ends, by the clock of `now`; None if it is over.

        Args:
            node: Name of the node.
            divided_at: Time of its last division, from its annotation.
            now: Monotonic seconds.
            wall: Unix seconds now.
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
        """Return the end of a node's pause as text; it stays the same during the pause."""
        known = self._until.get(node)
        return known[2] if known is not None else "now"

    def count(self, now: float) -> int:
        """Return the number of paused nodes."""
        return sum([until > now for _, until, _ in self._until.values()])

    def keep(self, nodes: Collection[str]) -> None:
        """Drop the pauses of all other nodes."""
        for name in self._until.keys() - set(nodes):
            del self._until[name]

    def _left(self, divided_at: str, wall: float) -> float:
        """Return the seconds left, at most a whole pause; 0 for an invalid time."""
        try:
            at = datetime.fromisoformat(divided_at).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
        return min(max(0.0, at + self._seconds - wall), self._seconds)
