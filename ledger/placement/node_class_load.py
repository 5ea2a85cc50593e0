"""Load of the pods that accept the same classes of nodes."""

from __future__ import annotations


class NodeClassLoad:
    """Slices of pods that accept the same classes; ledger/placement/node_class_prices.py counts them."""

    __slots__ = ("is_dropped", "slices")

    def __init__(self) -> None:
        self.slices = 0
        self.is_dropped = False
        """Whether the slices no longer count, because there were too many loads."""
