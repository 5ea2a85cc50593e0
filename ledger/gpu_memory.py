"""GPU memory that a pod holds, for quotas in MiB. A policy's reserve is not subtracted.

A pod holds the MiB that its label requests, else its share of the card. A card of unknown memory is counted
in sixteenths; a quota counts each as that part of the largest known card.
"""

from __future__ import annotations

from typing import NamedTuple

from kube.names import GPU_PRODUCT_LABEL, label_number
from ledger.instance_worth import mib_of_instance, profile_on
from modes.facts import NodeFact, PodFact
from modes.units import Gpu, Unit

UNKNOWN_CARD_MIB = 2**20
"""MiB of a card while no card's memory is known: more than any card has."""
USUAL_SLICES = 8
"""Slices of a card for a pod without a node, if nothing states its slices."""
_PARTS = 16
"""Slices of a card under the finest division."""


class GpuMemory(NamedTuple):
    """GPU memory of one or more shares."""

    mib: int = 0
    unknown_sixteenths: int = 0
    """Sixteenths of cards of unknown memory, rounded up."""

    def times(self, factor: int) -> GpuMemory:
        """Return this memory multiplied by a factor."""
        return GpuMemory(self.mib * factor, self.unknown_sixteenths * factor)

    def plus(self, other: GpuMemory) -> GpuMemory:
        """Return the sum of both amounts."""
        return GpuMemory(self.mib + other.mib, self.unknown_sixteenths + other.unknown_sixteenths)

    def at_most(self, largest_mib: int) -> int:
        """Return the MiB if each card of unknown memory is as large as the largest known one (0: unknown)."""
        return self.mib - (-self.unknown_sixteenths * (largest_mib or UNKNOWN_CARD_MIB) // _PARTS)


NO_MEMORY = GpuMemory()


def memory_of_pod(pod: PodFact, node: NodeFact | None) -> GpuMemory:
    """Return the MiB that a pod holds on its node (None: no node, or an unknown one)."""
    if pod.sharing > 1 and not pod.in_slices:
        return _of_sharing(pod, node)
    found = NO_MEMORY
    for share in pod.claimed:
        mib = share.most_mib(pod.claimable)
        found = found.plus(GpuMemory(0, _PARTS * share.gpus) if mib is None else GpuMemory(mib))
    for unit, amount in pod.takes:
        found = found.plus(_of_unit(unit, amount, pod, node))
    return found


def _of_unit(unit: Unit, amount: int, pod: PodFact, node: NodeFact | None) -> GpuMemory:
    if isinstance(unit, Gpu):
        mib = node.card_mib((unit,)) if node is not None else _required_mib(pod)
        per_gpu = node.slices_per_gpu if node is not None else 0
        return _share(pod, mib or 0, per_gpu, amount)
    profile = profile_on(unit, pod, node)
    if profile is not None:
        return GpuMemory(amount * mib_of_instance(pod, node, profile))
    return _of_pool(pod, amount, node)


def _of_sharing(pod: PodFact, node: NodeFact | None) -> GpuMemory:
    """Memory of containers that share the MiB of their pod's label, as far as their slices agree."""
    if node is None:
        return GpuMemory(pod.asked_mib)
    if pod.pooled:
        cards = [(node.gpu_mib or 0, pod.pooled)]
        per_gpu = node.pooled // node.pooled_gpus if node.pooled_gpus else 0
    else:
        cards = [(node.card_mib((index,)) or 0, amount) for index, amount in pod.gpus]
        per_gpu = node.slices_per_gpu
    if not per_gpu or not cards or not all(mib for mib, _ in cards):
        return GpuMemory(pod.asked_mib)
    sliced = sum([mib * slices for mib, slices in cards])
    # The last slice of each container may be nearly empty.
    least = (sliced - pod.sharing * max([mib for mib, _ in cards])) // per_gpu + 1
    return GpuMemory(min(sliced // per_gpu, max(pod.asked_mib, least)))


def cards_of(node: NodeFact | None) -> object:
    """Return all facts of a node that the memory of its pods depends on, for comparison."""
    if node is None:
        return None
    product = node.labels.get(GPU_PRODUCT_LABEL)
    return node.gpu_mib, node.cards, node.slices_per_gpu, node.pooled, node.pooled_gpus, product


def _of_pool(pod: PodFact, pooled: int, node: NodeFact | None) -> GpuMemory:
    if node is None or not node.pooled_gpus:
        # Each slice may be a whole GPU, unless the label states its share of one.
        gpus = 1 if pod.share is not None or pod.asked_mib else pooled
        slices = pooled if pod.in_slices else 1
        mib = (node.gpu_mib if node is not None else _required_mib(pod)) or 0
        if pod.share is not None:
            return _part(mib, *pod.share)
        return _share(pod, mib, 0, slices).times(gpus)
    mib, per_gpu = node.gpu_mib or 0, max(1, node.pooled // node.pooled_gpus)
    whole, rest = divmod(pooled, per_gpu)
    found = _share(pod, mib, per_gpu, per_gpu).times(whole)
    return found.plus(_share(pod, mib, per_gpu, rest)) if rest else found


def _share(pod: PodFact, card_mib: int, per_gpu: int, slices: int) -> GpuMemory:
    """The share by the pod's label, as far as its slices of one card agree with it; 0 if one is unknown."""
    if pod.in_slices and (pod.asked_mib or per_gpu):
        per_gpu = per_gpu or USUAL_SLICES
        return _part(card_mib, min(slices, per_gpu), per_gpu)
    if not card_mib:
        if pod.asked_mib:
            return GpuMemory(pod.asked_mib)
        of_label = pod.share if pod.share is not None and pod.share[0] < pod.share[1] else (1, 1)
        return _part(0, *((slices, per_gpu) if per_gpu else of_label))
    asked = card_mib * pod.share[0] // pod.share[1] if pod.share is not None else pod.asked_mib
    if not per_gpu:
        return GpuMemory(min(asked or card_mib, card_mib))
    most = card_mib * slices // per_gpu
    if not asked:
        return GpuMemory(most)
    # In some clusters users can change labels later; slices cannot change.
    return GpuMemory(min(most, max(asked, card_mib * (slices - 1) // per_gpu + 1)))


def _part(mib: int, share: int, one: int) -> GpuMemory:
    """A part of one card."""
    return GpuMemory(mib * share // one) if mib else GpuMemory(0, -(-share * _PARTS // one))


def _required_mib(pod: PodFact) -> int:
    """MiB of the largest card that a pod without a node may get, by its requirements."""
    return max([label_number(value) or 0 for value in pod.memory_values or ()], default=0)
