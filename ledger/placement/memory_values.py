"""The values of the node label nvidia.com/gpu.memory in the cluster, and what shares of them come to."""

from __future__ import annotations

from collections import Counter

from kube.names import GPU_MEMORY_LABEL
from ledger.facts import NodeFact
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction


class MemoryValues:
    """How many nodes carry each value."""

    def __init__(self) -> None:
        self._nodes: Counter[tuple[int, str]] = Counter()
        self._of_share: dict[tuple[Fraction, int], tuple[str, ...]] = {}

    def add(self, node: NodeFact) -> None:
        """Count a node's value; the inverse of `remove`."""
        if node.gpu_mib is not None:
            self._nodes[node.gpu_mib, node.labels[GPU_MEMORY_LABEL]] += 1
            self._of_share.clear()

    def remove(self, node: NodeFact) -> None:
        """Forget a node's value; the inverse of `add`."""
        if node.gpu_mib is not None:
            value = node.gpu_mib, node.labels[GPU_MEMORY_LABEL]
            self._nodes[value] -= 1
            self._of_share.clear()
            if not self._nodes[value]:
                del self._nodes[value]

    def of_share(self, ask: PlacementRequest, gpu_mib: int) -> tuple[str, ...]:
        """The values of which the share is as many MiB as of `gpu_mib`, by number; none where none bind."""
        if not ask.is_bound_by_memory:
            return ()
        fraction = ask.fraction
        key = fraction, gpu_mib
        values = self._of_share.get(key)
        if values is None:
            values = self._of_share[key] = self._sharing(fraction, gpu_mib)
        return values

    def _sharing(self, fraction: Fraction, gpu_mib: int) -> tuple[str, ...]:
        share = fraction.share_mib(gpu_mib)
        return tuple(text for mib, text in sorted(self._nodes) if fraction.share_mib(mib) == share)
