"""The ledger as users and the GpuLedger resource see it: nodes, GPUs, holders of slices, pending pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Literal

from kube.names import GPU_PRODUCT_LABEL
from ledger.accounts import Claim, ClaimKey, NodeAccount
from ledger.card_view import CardView
from modes.units import POOL, Profile, Unit, index_of, profile_of_product, unit_name, unit_of, unit_order

MAX_SHARES = 512
"""Shares of one node that are listed, equally many for each GPU: at most 300 KB of JSON."""
MAX_UNKNOWN_GPUS = 64
"""Listed GPUs that a node lacks, because it lost them or because pods only name them."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Slices of one GPU, or of a node's pool, that one pod or reservation has."""

    namespace: str
    name: str
    """Name of the pod, or of the reservation until the pod appears."""
    kind: Literal["holder", "promised", "reservation"]
    """A bound pod, a pod expected on this node, or a reservation whose pod has not appeared."""
    slices: int
    queue: str = ""
    """Key of the pod's ClearML queue; empty for pods without one."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Sum of pods of one GPU, or of GPUs of one node, that are not listed."""

    count: int
    used: int
    """Slices that they use together."""
    held: int
    """Slices of bound pods among them; of GPUs, slices beyond the capacity."""


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU, or the pool of a node whose GPUs share one resource name."""

    index: int | None
    """None for the pool. For MIG instances the number of their profile (`unit`); all amounts are then
    instances."""
    capacity: int
    """Slices that can be allocated."""
    shares: tuple[Holding, ...]
    """The largest shares, by namespace and name."""
    cordoned: bool = False
    """Whether new pods are kept off it, by the node's annotation."""
    memory_mib: int | None = None
    """MiB of the card, if the node's agent reports them."""
    unlisted: Unlisted | None = None
    """Sum of the shares that are not in `shares`; None if all are."""
    usable: bool = True
    """Whether its node takes new pods."""
    model: str | None = None
    """Model of the card, if its node's agent reports another one than the node's label."""

    @property
    def unit(self) -> Unit:
        """What pods take a part of: a GPU, a MIG profile or the pool."""
        return unit_of(self.index)

    @property
    def name(self) -> str:
        """Name for users: an index, a MIG profile such as "1g.10gb", or "pool"."""
        return unit_name(self.unit)

    @property
    def used(self) -> int:
        """Slices in use, including reserved ones."""
        return sum(share.slices for share in self.shares) + (self.unlisted.used if self.unlisted else 0)

    @property
    def held(self) -> int:
        """Slices of pods that are bound to the node."""
        listed = sum(share.slices for share in self.shares if share.kind == "holder")
        return listed + (self.unlisted.held if self.unlisted else 0)

    @property
    def unallocated(self) -> int:
        """Slices that nobody has, whether or not new pods can get them."""
        return max(0, self.capacity - self.used)

    @property
    def free(self) -> int:
        """Slices for new pods: none on a cordoned GPU, or on a node that is not usable."""
        return self.unallocated if self.usable and not self.cordoned else 0

    @property
    def over(self) -> int:
        """Slices that bound pods hold beyond the capacity, after a GPU was lost."""
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
    """Sum of the GPUs that pods hold, that the node lacks, and that are not in `gpus`."""
    cards: tuple[CardView, ...] = ()
    """Cards that DRA drivers offer of it; a GPU that a device plugin offers too is also in `gpus`."""

    def profile_of(self, gpu: GpuView) -> Profile | None:
        """Return the profile of MIG instances, also of those of a pool; None for slices."""
        unit = profile_of_product(self.product or "") if gpu.unit is POOL else gpu.unit
        return unit if isinstance(unit, Profile) else None

    @property
    def used(self) -> int:
        """Allocated slices of all GPUs."""
        return sum([gpu.used for gpu in self.gpus]) + (self.unlisted.used if self.unlisted else 0)

    @property
    def over(self) -> int:
        """Slices beyond the capacity of all GPUs."""
        return sum([gpu.over for gpu in self.gpus]) + (self.unlisted.held if self.unlisted else 0)


@dataclass(frozen=True, slots=True)
class PendingView:
    """Slices of a pod or reservation that has no node yet."""

    namespace: str
    name: str
    kind: Literal["pod", "reservation"]
    indices: tuple[int, ...]
    """As in `GpuView`; empty for the pool."""
    slices: int
    """For MIG instances their number; 0 for a pod that claims cards from a DRA driver."""
    on_each: tuple[int, ...] = ()
    """Slices on each of `indices`, if they differ."""

    @property
    def profile(self) -> str:
        """Profile of the MIG instance for which it waits; empty for slices."""
        units = map(unit_of, self.indices)
        return next((unit.name for unit in units if isinstance(unit, Profile)), "")


@dataclass(frozen=True, slots=True)
class PodView(PendingView):
    """A pod with a share, as the pod itself says it in words; its state is its phase, or "Terminating"."""

    node: str | None = None
    share: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The whole ledger: nodes by name, pending pods and reservations by namespace and name."""

    nodes: tuple[NodeView, ...]
    backlog: tuple[PendingView, ...]
    pods: tuple[PodView, ...] | None = None
    """The pods of one namespace, instead of nodes that may not be read."""


def node_view(account: NodeAccount, cards: tuple[CardView, ...] = ()) -> NodeView | None:
    """Return the view of one node; None if it is unknown, or has neither GPUs nor `cards`."""
    fact = account.fact
    if fact is None or not (fact.has_gpus or cards):
        return None
    product = fact.labels.get(GPU_PRODUCT_LABEL)
    if not fact.has_gpus:
        return NodeView(fact.name, fact.usable, 0, fact.gpu_mib, product, (), cards=cards)
    offered, taken = account.offered, account.taken.keys()
    mib_of: dict[Unit, int] = dict(fact.cards)
    model_of: dict[Unit, str] = dict(zip(mib_of, fact.card_models, strict=False))
    unknown = sorted(taken - offered.keys() - {POOL}, key=unit_order)
    units = sorted({*offered, *unknown[:MAX_UNKNOWN_GPUS], *(taken & {POOL})}, key=unit_order)
    gpus = [
        GpuView(
            index_of(unit),
            offered.get(unit, 0),
            shares,
            unit in fact.cordoned,
            mib_of.get(unit),
            unlisted,
            fact.usable,
            model if (model := model_of.get(unit)) != product else None,
        )
        for unit, (shares, unlisted) in _holdings(account, units).items()
    ]
    slices_per_gpu = fact.slices_per_gpu or fact.pooled // max(1, fact.pooled_gpus)
    rest = _summed_up(account, unknown[MAX_UNKNOWN_GPUS:])
    return NodeView(fact.name, fact.usable, slices_per_gpu, fact.gpu_mib, product, tuple(gpus), rest, cards)


def _summed_up(account: NodeAccount, units: list[Unit]) -> Unlisted | None:
    if not units:
        return None
    used = sum([account.taken[unit] for unit in units])
    return Unlisted(len(units), used, sum([account.held(unit) for unit in units]))


def pending_view(claim: Claim) -> PendingView:
    """Return the view of one pending pod or reservation."""
    kind: Literal["pod", "reservation"] = "reservation" if claim.is_reserved else "pod"
    indexed = [(index, amount) for unit, amount in claim.takes if (index := index_of(unit)) is not None]
    indices, on_each = tuple([index for index, _ in indexed]), tuple([amount for _, amount in indexed])
    differ = on_each if len(set(on_each)) > 1 else ()
    amount = sum([amount for _, amount in claim.takes])
    return PendingView(claim.namespace, claim.name, kind, indices, amount, differ)


_Shares = tuple[tuple[Holding, ...], Unlisted | None]


def _holdings(account: NodeAccount, units: Sequence[Unit]) -> dict[Unit, _Shares]:
    """Return the largest shares of each unit, and a sum of the others."""
    found: dict[Unit, list[tuple[int, ClaimKey]]] = {}
    for key, claim in account.claims.items():
        for unit, amount in claim.takes:
            found.setdefault(unit, []).append((-amount, key))
    most = max(1, MAX_SHARES // max(1, len(units)))
    return {unit: _shares(account, found.get(unit, []), unit, most) for unit in units}


def _shares(account: NodeAccount, found: Sequence[tuple[int, ClaimKey]], unit: Unit, most: int) -> _Shares:
    largest = [key for _, key in nsmallest(most, found)]
    listed = tuple([_holding(account.claims[key], unit) for key in sorted(largest)])
    more = len(found) - len(listed)
    if not more:
        return listed, None
    used = account.taken.get(unit, 0) - sum([share.slices for share in listed])
    held = account.held(unit) - sum([share.slices for share in listed if share.kind == "holder"])
    return listed, Unlisted(more, used, held)


def _holding(claim: Claim, unit: Unit) -> Holding:
    kind: Literal["holder", "promised", "reservation"] = "holder"
    if claim.node is None:
        kind = "reservation" if claim.is_reserved else "promised"
    return Holding(claim.namespace, claim.name, kind, dict(claim.takes)[unit], queue_of(claim))


def queue_of(claim: Claim) -> str:
    """Return the key of a claim's ClearML queue; empty without one."""
    return claim.queues[0] if claim.queues else ""
