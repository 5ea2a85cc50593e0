"""The filter of the ledger command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ledger.card_view import CardShare, CardView
from ledger.queue_names import sanitised
from ledger.use_history import OwnerUse
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
    """At least this number of slices is free; no card that a DRA driver offers has slices."""

    def apply(self, view: LedgerView) -> LedgerView:
        """Remove GPUs and cards that do not match, and nodes without any; the others keep all holders."""
        nodes = [
            replace(
                node,
                gpus=tuple(filter(self._shows, node.gpus)),
                cards=tuple(filter(self._shows_card, node.cards)),
            )
            for node in view.nodes
            if self.node is None or fnmatchcase(node.name, self.node)
        ]
        waiting = [each for each in view.backlog if self.namespace in {None, each.namespace}]
        if self.node is not None or self.queue is not None or self.free is not None:
            waiting = []
        shown = tuple(node for node in nodes if node.gpus or node.cards)
        return replace(view, nodes=shown, backlog=tuple(waiting))

    def _shows(self, gpu: GpuView) -> bool:
        if self.free is not None and gpu.free < self.free:
            return False
        # The owners of shares that are not listed are unknown.
        return self._is_any or gpu.unlisted is not None or any(map(self.takes, gpu.shares))

    def _shows_card(self, card: CardView) -> bool:
        return self.free is None and (self._is_any or any(map(self.takes, card.shares)))

    @property
    def _is_any(self) -> bool:
        return self.namespace is None and self.queue is None

    def takes(self, share: Holding | CardShare | OwnerUse) -> bool:
        """Whether something is of the namespace and the queue."""
        of_namespace = self.namespace in {None, share.namespace}
        return of_namespace and (self.queue is None or sanitised(self.queue) == sanitised(share.queue))
