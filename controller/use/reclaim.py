"""When an idle pod is warned, and when it is evicted. Deterministic and free of side effects."""

from __future__ import annotations

from typing import Literal

import msgspec

from controller.policies.idle_shares import IdlePod

FRESH_SECONDS = 90.0
"""How old a report may be by the time at which it arrived: agents write one a minute while a pod is idle."""


class Warned(msgspec.Struct, frozen=True, array_like=True):
    """A warning. Both are seconds since 1970 by the clock of the pod's node."""

    idle_since: int
    measured: int
    """The time of the report on which it was given."""


def next_step(pod: IdlePod, warned: Warned | None) -> Literal["wait", "warn", "evict"]:
    """Return what an idle pod is due for.

    Args:
        pod: the pod, as its agent reported it just now.
        warned: when it was warned; None if it never was.
    """
    if not pod.rule.evicts:
        return "wait"
    # Any other time is another one that it is idle, also if the node's clock was set since.
    if warned is None or warned.idle_since != pod.idle_since:
        return "warn"
    return "evict" if pod.measured - warned.measured >= pod.rule.grace_seconds else "wait"


class Freshness:
    """Knows which agents report at present.

    A report is fresh only if it was seen to replace another one. So neither a node's clock matters, nor what
    an agent wrote before it fell silent. A controller that has just started knows of no fresh report.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float | None]] = {}

    def note(self, node: str, measured: str, now: float) -> bool:
        """Record a node's report; return whether it is fresh.

        Args:
            node: name of the node.
            measured: when its agent measured, as reported.
            now: seconds of a monotonic clock.
        """
        before = self._seen.get(node)
        if before is None or before[0] != measured:
            self._seen[node] = measured, now if before is not None else None
        at = self._seen[node][1]
        return bool(measured) and at is not None and now - at <= FRESH_SECONDS

    def keep(self, nodes: set[str]) -> None:
        """Forget all other nodes."""
        self._seen = {node: seen for node, seen in self._seen.items() if node in nodes}
