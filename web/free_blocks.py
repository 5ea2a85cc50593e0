"""How many pods of each size fit now, updated as nodes change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ledger.card_view import CardView
from ledger.view import NodeView

DENOMINATORS = (1, 2, 4, 8)
"""Whole GPUs, halves, quarters, eighths."""


class FreeBlock(msgspec.Struct, frozen=True, gc=False):
    """How many pods fit if all of them have this size."""

    denominator: int
    pods: int


class FreeBlocks:
    """Counts how many pods of each size fit into the free slices, and the free MiB of cards, of all nodes."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[int, ...]] = {}
        self._sums = [0] * len(DENOMINATORS)

    def set(self, name: str, view: NodeView | None) -> None:
        """Count a node in its current state; None removes it."""
        nothing = (0,) * len(DENOMINATORS)
        before = self._by_node.pop(name, nothing)
        after = _counts(view) if view is not None else nothing
        if any(after):
            self._by_node[name] = after
        self._sums = [total - old + new for total, old, new in zip(self._sums, before, after, strict=True)]

    def all(self) -> tuple[FreeBlock, ...]:
        """Return the sums, largest size first."""
        return tuple([FreeBlock(*pair) for pair in zip(DENOMINATORS, self._sums, strict=True)])


def _counts(view: NodeView) -> tuple[int, ...]:
    free = [gpu.free for gpu in view.gpus]
    in_slices = [_fitting(free, view.slices_per_gpu, denominator) for denominator in DENOMINATORS]
    in_cards = [sum([_on(card, denominator) for card in view.cards]) for denominator in DENOMINATORS]
    return tuple(map(sum, zip(in_slices, in_cards, strict=True)))


def _on(card: CardView, denominator: int) -> int:
    size = card.memory_mib // denominator
    return card.free_mib // size if size else 0


def _fitting(free: Sequence[int], slices_per_gpu: int, denominator: int) -> int:
    size, rest = divmod(slices_per_gpu, denominator)
    return 0 if rest or not size else sum([slices // size for slices in free])
