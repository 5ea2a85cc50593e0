"""One kind of pod that is expected: how many came lately."""

from __future__ import annotations


class ExpectedPod:
    """Recent pods that have the same size on the same classes of nodes (expected_pods.py counts them)."""

    __slots__ = ("count", "is_dropped", "mib")

    def __init__(self) -> None:
        self.count = 0.0
        self.mib = 0.0
        """MiB that they requested of each GPU, summed up; 0 if they requested slices."""
        self.is_dropped = False
        """Whether they no longer count, because there were too many kinds or they no longer come."""
