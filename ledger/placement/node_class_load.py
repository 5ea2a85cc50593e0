"""How much arrived of pods that accept the same classes of nodes."""

from __future__ import annotations


class NodeClassLoad:
    """Slices of pods that accept the same classes; counted in ledger/placement/node_class_prices.py."""

    __slots__ = ("is_dropped", "slices")

    def __init__(self) -> None:
        self.slices = 0
        self.is_dropped = False
        """Whether the slices count no longer, as it was one of too many."""
