"""The filter of the ledger command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ledger.card_view import CardShare, CardView
from ledger.queue_names import sanitised
from ledger.view import GpuView, Holding, LedgerView


@dataclass(frozen=True, slots=True)
class Filter:
    """A GPU is shown if it matches all fields that are not None."""

    node: str | None = None
    """Shell pattern of the node's name."""
    namespace: str | None = None
    """A pod of this namespace holds a share of the GPU."""
    queue: str | None = None
    """A pod of this ClearML queue holds a share of the GPU."""
    free: int | None = None
    """At least this number of slices is free."""

    def apply(self, view: LedgerView) -> LedgerView:
        """Remove GPUs and cards that do not match, and nodes without any; the others keep all holders."""
        nodes = [
            replace(
                node,
                gpus=tuple(gpu for gpu in node.gpus if self._shows(gpu)),
                cards=tuple(self.cards(node.cards)),
            )
            for node in view.nodes
            if self.node is None or fnmatchcase(node.name, self.node)
        ]
        waiting = [each for each in view.backlog if self.namespace in {None, each.namespace}]
        if self.node is not None or self.queue is not None or self.free is not None:
            waiting = []
        return LedgerView(tuple(node for node in nodes if node.gpus or node.cards), tuple(waiting))

    def cards(self, cards: Iterable[CardView]) -> list[CardView]:
        """Return the cards that DRA drivers offer and that match: none if free slices are asked for."""
        if self.free is not None:
            return []
        return [card for card in cards if self._shows_card(card)]

    def _shows_card(self, card: CardView) -> bool:
        is_there = self.node is None or fnmatchcase(card.node, self.node)
        is_any = self.namespace is None and self.queue is None
        return is_there and (is_any or any(self._is_asked(share) for share in card.shares))

    def _shows(self, gpu: GpuView) -> bool:
        if self.free is not None and gpu.free < self.free:
            return False
        if self.namespace is None and self.queue is None:
            return True
        # The owners of the others are unknown.
        return gpu.unlisted is not None or any(self._is_asked(share) for share in gpu.shares)

    def _is_asked(self, share: Holding | CardShare) -> bool:
        of_namespace = self.namespace in {None, share.namespace}
        return of_namespace and (self.queue is None or sanitised(self.queue) == sanitised(share.queue))
