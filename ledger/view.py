"""The ledger as people and the GpuLedger resource see it: nodes, their GPUs, who holds what, who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kube.names import GPU_PRODUCT_LABEL
from ledger.accounts import Claim, NodeAccount
from ledger.facts import PodFact
from modes.mig_instances import gpu_name


@dataclass(frozen=True, slots=True)
class Holding:
    """Slices of one GPU, or of a node's pool, in one hand."""

    namespace: str
    name: str
    """The pod's name, or the reservation's until there is a pod."""
    kind: Literal["holder", "promised", "reservation"]
    """A bound pod, a pod expected on this node, a reservation whose pod has not shown up."""
    slices: int
    queue: str = ""
    """Key of the pod's ClearML queue; empty for pods without one."""


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU, or the pool of a node whose GPUs share one resource name."""

    index: int | None
    """None for the pool; of MIG instances the number of their profile, and all amounts are instances."""
    capacity: int
    """Slices that can be allocated."""
    shares: tuple[Holding, ...]
    cordoned: bool = False
    memory_mib: int | None = None
    """MiB of the card, where the node's agent says it."""

    @property
    def name(self) -> str:
        """What people call it: an index, a MIG profile such as "1g.10gb", or the pool."""
        return "pool" if self.index is None else gpu_name(self.index)

    @property
    def used(self) -> int:
        """Allocated slices, promised ones included."""
        return sum(share.slices for share in self.shares)

    @property
    def free(self) -> int:
        """Slices for new pods; negative when more is allocated than there is."""
        return self.capacity - self.used

    @property
    def over(self) -> int:
        """Slices that bound pods hold beyond capacity, after a GPU was lost."""
        return max(0, sum(share.slices for share in self.shares if share.kind == "holder") - self.capacity)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node with GPUs."""

    name: str
    usable: bool
    slices_per_gpu: int
    gpu_mib: int | None
    product: str | None
    gpus: tuple[GpuView, ...]


@dataclass(frozen=True, slots=True)
class PendingView:
    """Slices that carry an index but have no node."""

    namespace: str
    name: str
    kind: Literal["pod", "reservation"]
    indices: tuple[int, ...]
    """Empty in pooled mode."""
    slices: int
    """Of MIG instances their number."""
    on_each: tuple[int, ...] = ()
    """Slices on each of `indices`, where they differ."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """All of it, nodes by name, waiting ones by namespace and name."""

    nodes: tuple[NodeView, ...]
    backlog: tuple[PendingView, ...]


def node_view(account: NodeAccount) -> NodeView | None:
    """View one node; None where it is unknown or has no GPUs."""
    fact = account.fact
    if fact is None or not (fact.gpus or fact.pooled or fact.instances):
        return None
    capacities, cards, held = dict(fact.gpus + fact.instances), dict(fact.cards), _holdings(account)
    indices = sorted(capacities.keys() | account.taken.keys())
    gpus = [
        GpuView(
            index, capacities.get(index, 0), held.get(index, ()), index in fact.cordoned, cards.get(index)
        )
        for index in indices
    ]
    if fact.pooled or account.taken_pooled:
        gpus.append(GpuView(None, fact.pooled, held.get(None, ())))
    slices_per_gpu = fact.slices_per_gpu or fact.pooled // max(1, fact.pooled_gpus)
    product = fact.labels.get(GPU_PRODUCT_LABEL)
    return NodeView(fact.name, fact.usable, slices_per_gpu, fact.gpu_mib, product, tuple(gpus))


def pending_view(claim: Claim) -> PendingView:
    """View one waiting pod or reservation."""
    kind: Literal["pod", "reservation"] = "pod" if isinstance(claim, PodFact) else "reservation"
    indices, on_each = tuple([index for index, _ in claim.gpus]), tuple([slices for _, slices in claim.gpus])
    differ = on_each if len(set(on_each)) > 1 else ()
    return PendingView(claim.namespace, claim.name, kind, indices, sum(on_each) + claim.pooled, differ)


def _holdings(account: NodeAccount) -> dict[int | None, tuple[Holding, ...]]:
    """Return who holds what of each GPU, and of the pool, in one walk over the claims."""
    held: dict[int | None, list[Holding]] = {}
    for claim in sorted(account.claims.values(), key=lambda claim: (claim.namespace, claim.name)):
        queue, kind = claim.queues[0] if claim.queues else "", _kind(claim)
        for index, slices in (*claim.gpus, (None, claim.pooled)):
            if slices:
                holding = Holding(claim.namespace, claim.name, kind, slices, queue)
                held.setdefault(index, []).append(holding)
    return {index: tuple(shares) for index, shares in held.items()}


def _kind(claim: Claim) -> Literal["holder", "promised", "reservation"]:
    if claim.node is not None:
        return "holder"
    return "promised" if isinstance(claim, PodFact) else "reservation"
