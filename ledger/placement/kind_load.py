"""How much arrived of pods that accept the same kinds of node."""

from __future__ import annotations


class KindLoad:
    """Slices of pods that accept the same kinds; counted in ledger/placement/kind_arrivals.py."""

    __slots__ = ("is_dropped", "slices")

    def __init__(self) -> None:
        self.slices = 0
        self.is_dropped = False
        """Whether the slices count no longer, as it was one of too many."""
