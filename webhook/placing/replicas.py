"""Where each owner's replicas are, for a webhook that places pods itself: reported, or placed here since.

The ledger has the usage of a node as sums, which have no owner. Each owner's replicas on a node are
therefore an additional pod that uses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.facts import PodFact
from ledger.ledger import Ledger
from ledger.owners import Replicas
from ledger.placement_request import Placement, PlacementRequest

MAX_REPORTED = 2**14
"""Maximum pairs of node and owner accepted from the controller."""
MAX_PLACED = 4096
"""Pairs of node and owner placed here, and owners of waiting pods: the latest are kept."""
_Indices = tuple[int, ...]


class KnownReplicas:
    """Records replicas in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reported: dict[str, dict[str, _Indices]] = {}
        self._placed: dict[str, dict[str, _Indices]] = {}
        self._waiting: dict[str, PodFact] = {}
        self._pairs_reported = self._pairs_placed = 0

    def set_reported(self, node: str, replicas: Iterable[Replicas]) -> None:
        """Set what the controller reports of a node; as many of those placed here have appeared."""
        before, now = self._reported.pop(node, {}), {each.owner: each.indices for each in replicas}
        self._pairs_reported -= len(before)
        if self._pairs_reported + len(now) > MAX_REPORTED:
            now = {}
        self._pairs_reported += len(now)
        if now:
            self._reported[node] = now
        for owner in before.keys() | now.keys():
            more = len(now.get(owner, ())) - len(before.get(owner, ()))
            here = self._placed.get(node, {}).get(owner, ())
            if here and more > 0:
                self._set_placed(node, owner, here[more:])
            self._book(node, owner)

    def place(self, request: PlacementRequest, placement: Placement) -> None:
        """Add what was placed here; the inverse of `release` if it has a node."""
        owner = request.accounting.owner
        if not owner:
            return
        if placement.node is not None:
            before = self._placed.get(placement.node, {}).get(owner, ())
            self._set_placed(placement.node, owner, (*before, *_indices(placement)))
            self._book(placement.node, owner)
            while self._pairs_placed > MAX_PLACED:
                self.forget(next(iter(self._placed)))
        elif request.demands.same_model:
            self._wait(owner, placement)

    def release(self, node: str | None, owner: str, indices: Iterable[int]) -> None:
        """Release one placement."""
        left = list(self._placed.get(node or "", {}).get(owner, ()))
        if node is None or not left:
            return
        for index in indices:
            if index in left:
                left.remove(index)
        self._set_placed(node, owner, tuple(left))
        self._book(node, owner)

    def forget(self, node: str) -> None:
        """Drop everything placed here on a node."""
        for owner in list(self._placed.get(node, ())):
            self._set_placed(node, owner, ())
            self._book(node, owner)

    def forget_waiting(self) -> None:
        """Drop the models that pods placed here wait for."""
        for fact in self._waiting.values():
            self._ledger.remove_pod(fact.key)
        self._waiting.clear()

    def _wait(self, owner: str, placement: Placement) -> None:
        if owner not in self._waiting and len(self._waiting) >= MAX_PLACED:
            self._ledger.remove_pod(self._waiting.pop(next(iter(self._waiting))).key)
        model, values = placement.model, placement.memory_values or None
        fact = PodFact(namespace="", name=f"waits/{owner}", model=model, memory_values=values, owner=owner)
        self._waiting[owner] = fact
        self._ledger.set_pod(fact)

    def _set_placed(self, node: str, owner: str, indices: _Indices) -> None:
        owners = self._placed.pop(node, {})
        self._pairs_placed -= owners.pop(owner, None) is not None
        if indices:
            owners[owner] = indices
            self._pairs_placed += 1
        if owners:
            # At the end: the node with the oldest placement is forgotten first.
            self._placed[node] = owners

    def _book(self, node: str, owner: str) -> None:
        indices = (*self._reported.get(node, {}).get(owner, ()), *self._placed.get(node, {}).get(owner, ()))
        fact = PodFact(
            namespace="",
            name=f"{node}/{owner}",
            node=node,
            gpus=tuple([(index, 0) for index in indices]),
            owner=owner,
        )
        if indices:
            self._ledger.set_pod(fact)
        else:
            self._ledger.remove_pod(fact.key)


def _indices(placement: Placement) -> _Indices:
    return placement.indices or (Replicas.POOL,)
