"""The ledger as people and the GpuLedger resource see it: nodes, their GPUs, who holds what, who waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kube.names import GPU_PRODUCT_LABEL
from ledger.accounts import Claim, NodeAccount
from ledger.crowd import Crowd
from ledger.facts import PodFact
from modes.mig_instances import gpu_name

MAX_SHARES = 512
"""Of one node that are listed, each GPU with as many of them: at most 300 KB of JSON."""
MAX_UNKNOWN_GPUS = 64
"""GPUs of one node that are listed though it does not have them, as it lost them or pods only name them."""


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
class Unlisted:
    """What is only summed up: of one GPU the pods that are not listed, of a node the GPUs."""

    count: int
    used: int
    """Slices that they take together."""
    held: int
    """Of these the slices of bound pods; of GPUs those beyond capacity."""


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU, or the pool of a node whose GPUs share one resource name."""

    index: int | None
    """None for the pool; of MIG instances the number of their profile, and all amounts are instances."""
    capacity: int
    """Slices that can be allocated."""
    shares: tuple[Holding, ...]
    """The largest, by namespace and name."""
    cordoned: bool = False
    """New pods are kept off it, by the node's annotation or as it is `offered_twice`."""
    memory_mib: int | None = None
    """MiB of the card, where the node's agent says it."""
    unlisted: Unlisted | None = None
    """Those that are not among `shares`; None where all are."""
    offered_twice: bool = False
    """A DRA driver offers it too, or nobody tells which GPUs of the node it offers."""

    @property
    def name(self) -> str:
        """What people call it: an index, a MIG profile such as "1g.10gb", or the pool."""
        return "pool" if self.index is None else gpu_name(self.index)

    @property
    def used(self) -> int:
        """Allocated slices, promised ones included."""
        return sum(share.slices for share in self.shares) + (self.unlisted.used if self.unlisted else 0)

    @property
    def held(self) -> int:
        """Slices of bound pods."""
        listed = sum(share.slices for share in self.shares if share.kind == "holder")
        return listed + (self.unlisted.held if self.unlisted else 0)

    @property
    def free(self) -> int:
        """Slices for new pods; negative when more is allocated than there is."""
        return self.capacity - self.used

    @property
    def over(self) -> int:
        """Slices that bound pods hold beyond capacity, after a GPU was lost."""
        return max(0, self.held - self.capacity)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node with GPUs."""

    name: str
    usable: bool
    slices_per_gpu: int
    gpu_mib: int | None
    product: str | None
    gpus: tuple[GpuView, ...]
    unlisted: Unlisted | None = None
    """GPUs that pods hold, that the node does not have, and that are not among `gpus`."""

    @property
    def used(self) -> int:
        """Allocated slices of all GPUs."""
        return sum([gpu.used for gpu in self.gpus]) + (self.unlisted.used if self.unlisted else 0)

    @property
    def over(self) -> int:
        """Slices beyond capacity of all GPUs."""
        return sum([gpu.over for gpu in self.gpus]) + (self.unlisted.held if self.unlisted else 0)


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
    capacities, cards = dict(fact.gpus + fact.instances), dict(fact.cards)
    unknown = sorted(account.taken.keys() - capacities.keys())
    indices: list[int | None] = [*sorted([*capacities, *unknown[:MAX_UNKNOWN_GPUS]])]
    if fact.pooled or account.taken_pooled:
        indices.append(None)
    gpus = [
        GpuView(
            index,
            capacity := fact.pooled if index is None else capacities.get(index, 0),
            shares,
            fact.is_offered_twice or index in fact.cordoned,
            cards.get(index) if index is not None else None,
            unlisted,
            # The kubelet goes on to state zero of names after their device plugin was turned off.
            bool(capacity) and (fact.is_offered_twice or index in fact.offered_twice),
        )
        for index, (shares, unlisted) in _holdings(account, indices).items()
    ]
    slices_per_gpu = fact.slices_per_gpu or fact.pooled // max(1, fact.pooled_gpus)
    product = fact.labels.get(GPU_PRODUCT_LABEL)
    rest = _summed_up(account, unknown[MAX_UNKNOWN_GPUS:])
    return NodeView(fact.name, fact.usable, slices_per_gpu, fact.gpu_mib, product, tuple(gpus), rest)


def _summed_up(account: NodeAccount, indices: list[int]) -> Unlisted | None:
    if not indices:
        return None
    used = sum([account.taken[index] for index in indices])
    return Unlisted(len(indices), used, sum([account.held(index) for index in indices]))


def pending_view(claim: Claim) -> PendingView:
    """View one waiting pod or reservation."""
    kind: Literal["pod", "reservation"] = "pod" if isinstance(claim, PodFact) else "reservation"
    indices, on_each = tuple([index for index, _ in claim.gpus]), tuple([slices for _, slices in claim.gpus])
    differ = on_each if len(set(on_each)) > 1 else ()
    return PendingView(claim.namespace, claim.name, kind, indices, sum(on_each) + claim.pooled, differ)


_Shares = tuple[tuple[Holding, ...], Unlisted | None]


def _holdings(account: NodeAccount, indices: Sequence[int | None]) -> dict[int | None, _Shares]:
    """Return who holds what of each GPU, and of the pool: the largest, and a sum of the others."""
    crowd = account.crowd or Crowd(account.claims)
    most = max(1, MAX_SHARES // max(1, len(indices)))
    return {index: _shares(account, crowd, index, most) for index in indices}


def _shares(account: NodeAccount, crowd: Crowd, index: int | None, most: int) -> _Shares:
    listed = tuple([_holding(account.claims[key], index) for key in sorted(crowd.first(index, most))])
    more = crowd.count(index) - len(listed)
    if not more:
        return listed, None
    used = account.taken.get(index, 0) if index is not None else account.taken_pooled
    used -= sum([share.slices for share in listed])
    held = account.held(index) - sum([share.slices for share in listed if share.kind == "holder"])
    return listed, Unlisted(more, used, held)


def _holding(claim: Claim, index: int | None) -> Holding:
    slices = claim.pooled if index is None else dict(claim.gpus)[index]
    queue = claim.queues[0] if claim.queues else ""
    return Holding(claim.namespace, claim.name, _kind(claim), slices, queue)


def _kind(claim: Claim) -> Literal["holder", "promised", "reservation"]:
    if claim.node is not None:
        return "holder"
    return "promised" if isinstance(claim, PodFact) else "reservation"
