"""The filter of the ledger command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ledger.card_view import CardView
from ledger.queue_names import sanitised
from ledger.view import GpuView, Holding, LedgerView


@dataclass(frozen=True, slots=True)
class Filter:
    """A GPU is shown if it matches all fields that are not None."""

    node: str | None = None
    """Shell pattern of the node's name."""
    namespace: str | None = None
    """A pod of this namespace holds slices of the GPU."""
    queue: str | None = None
    """A pod of this ClearML queue holds slices of the GPU."""
    free: int | None = None
    """At least this number of slices is free."""

    def apply(self, view: LedgerView) -> LedgerView:
        """Remove every GPU that does not match, and nodes without any; matching GPUs keep all holders."""
        nodes = [
            replace(node, gpus=tuple(gpu for gpu in node.gpus if self._shows(gpu)))
            for node in view.nodes
            if self.node is None or fnmatchcase(node.name, self.node)
        ]
        waiting = [each for each in view.backlog if self.namespace in {None, each.namespace}]
        if self.node is not None or self.queue is not None or self.free is not None:
            waiting = []
        return LedgerView(tuple(node for node in nodes if node.gpus), tuple(waiting))

    def cards(self, cards: Iterable[CardView]) -> list[CardView]:
        """Return the cards that DRA drivers offer and that match: none if slices or a queue are asked for."""
        if self.queue is not None or self.free is not None:
            return []
        return [card for card in cards if self._shows_card(card)]

    def _shows_card(self, card: CardView) -> bool:
        is_there = self.node is None or fnmatchcase(card.node, self.node)
        of_namespace = any(share.namespace == self.namespace for share in card.shares)
        return is_there and (self.namespace is None or of_namespace)

    def _shows(self, gpu: GpuView) -> bool:
        if self.free is not None and gpu.free < self.free:
            return False
        if self.namespace is None and self.queue is None:
            return True
        # The owners of the others are unknown.
        return gpu.unlisted is not None or any(self._is_asked(share) for share in gpu.shares)

    def _is_asked(self, share: Holding) -> bool:
        of_namespace = self.namespace in {None, share.namespace}
        return of_namespace and (self.queue is None or sanitised(self.queue) == sanitised(share.queue))
