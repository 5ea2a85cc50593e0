"""The kinds of GPU in the cluster: values of nvidia.com/gpu.memory, the MiB of shares of them, and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kube.names import GPU_MEMORY_LABEL
from ledger.owners import GpuModel
from ledger.placement.cards import layout
from ledger.placement.instance_offers import InstanceOffers
from ledger.placement.same_model import model_of
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact
from modes.fraction import Fraction


class MemoryValues:
    """Counts the nodes that have each value."""

    def __init__(self) -> None:
        self._nodes: Counter[tuple[int, str]] = Counter()
        self._kinds: Counter[GpuModel] = Counter()
        self._labels: Counter[GpuModel] = Counter()
        self.instances = InstanceOffers()
        """The MIG instances that nodes offer."""
        self._of_share: dict[tuple[tuple[int, int], int], tuple[str, ...]] = {}

    def add(self, node: NodeFact) -> None:
        """Count a node's values; the inverse of `remove`."""
        self._kinds.update(_kinds_of(node))
        self._labels[model_of(node)] += 1
        self.instances.add(node)
        if node.gpu_mib is not None:
            self._nodes[node.gpu_mib, node.labels[GPU_MEMORY_LABEL]] += 1
            self._of_share.clear()

    def remove(self, node: NodeFact) -> None:
        """Remove a node's values; the inverse of `add`."""
        self._kinds.subtract(_kinds_of(node))
        self._labels[model_of(node)] -= 1
        self.instances.remove(node)
        self._kinds += Counter()
        self._labels += Counter()
        if node.gpu_mib is not None:
            value = node.gpu_mib, node.labels[GPU_MEMORY_LABEL]
            self._nodes[value] -= 1
            self._of_share.clear()
            if not self._nodes[value]:
                del self._nodes[value]

    def of_share(self, request: PlacementRequest, gpu_mib: int) -> tuple[str, ...]:
        """The values for which the share gives the same MiB as for `gpu_mib`; empty if memory does not bind.

        They are sorted. For requested MiB, they are the values for which these give the same slices. Cards
        with less memory than the pod accepts are left out.
        """
        if not request.share.is_bound_by_memory:
            return ()
        fraction, least = request.share.fraction, request.demands.kinds.min_mib
        if fraction.mib:
            # Users can request any number of MiB: too many to remember.
            sizes = sorted(self._nodes)
            return tuple(text for mib, text in sizes if mib >= least and fraction.on_card(mib) == fraction)
        key = fraction.ratio, gpu_mib
        values = self._of_share.get(key)
        if values is None:
            values = self._of_share[key] = self._sharing(fraction, gpu_mib)
        return tuple(text for text in values if int(text) >= least) if least else values

    def not_of_size(self, fraction: Fraction) -> tuple[str, ...]:
        """The values for which requested MiB give other slices, or do not fit; sorted."""
        return tuple([text for mib, text in sorted(self._nodes) if fraction.on_card(mib) != fraction])

    def kinds(self) -> Mapping[GpuModel, int]:
        """Number of nodes by kind of GPU, by their cards if known, else by their labels."""
        return self._kinds

    def labels(self) -> Mapping[GpuModel, int]:
        """Number of nodes by the kind of GPU in their labels."""
        return self._labels

    def sizes(self, fraction: Fraction) -> list[Fraction]:
        """The requested MiB as slices on each GPU size of the cluster, the fewest slices first."""
        known = {mib for mib, _ in self._nodes} | {mib for _, mib in self._kinds if mib}
        sizes = {fraction.on_card(mib) for mib in known}
        return sorted([size for size in sizes if size is not None], key=lambda size: size.slices)

    def _sharing(self, fraction: Fraction, gpu_mib: int) -> tuple[str, ...]:
        share = fraction.share_mib(gpu_mib)
        return tuple(text for mib, text in sorted(self._nodes) if fraction.share_mib(mib) == share)


def _kinds_of(node: NodeFact) -> set[GpuModel]:
    found = layout(node)
    if found is None:
        return {model_of(node)}
    return {(card.model or None, card.mib) for _, card in found.cards}
