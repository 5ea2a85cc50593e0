"""What the ledger knows of nodes and pods: small frozen structs, made by ledger/from_kubernetes.py."""

from __future__ import annotations

from typing import Literal

import msgspec

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Taint
from modes.claim_name import NamedShare
from modes.mig_profiles import MigCard, card_of_product
from modes.units import POOL, Amounts, Gpu, Unit, unit_of

UNLIMITED = 1 << 60
"""CPU or memory of a node that does not state it: placement never fails for it."""


NodeAgent = Literal["unknown", "missing", "away", "serving"]
"""State of our agent on a node: not reported, never there, was there and may return, limits containers."""
PodKey = tuple[str, str]
"""Namespace and name. Never joined into one string: two pairs could give the same one."""


class NodeFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node, with or without GPUs."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    """Taints that an admin set. Those that pass, or whose node does, are reflected in `usable`."""
    usable: bool = True
    """Ready, schedulable and without a taint of the node life cycle."""
    gpus: tuple[tuple[int, int], ...] = ()
    """(index, allocatable slices) of each GPU with a resource name of its own, by index."""
    slices_per_gpu: int = 0
    """Slices that each of `gpus` is divided into; 0 while the device plugin is away."""
    pool: str = ""
    """Resource name that all GPUs share; empty if there is none, or if it is unknown."""
    pooled: int = 0
    """Slices of `pool`; 0 also while the device plugin is away."""
    pooled_gpus: int = 0
    """GPUs behind `pooled`; 0 if no label states it."""
    instances: tuple[tuple[int, int], ...] = ()
    """(number of a profile, allocatable MIG instances), by number (modes/units.py)."""
    gpu_mib: int | None = None
    """MiB of one GPU by the label nvidia.com/gpu.memory; None if the label is missing or not a number."""
    cards: tuple[tuple[int, int], ...] = ()
    """(index, MiB) of each GPU as the node's agent reports it, by index; empty without an agent."""
    card_models: tuple[str, ...] = ()
    """Model of each of `cards`, in the form of the label nvidia.com/gpu.product; empty if unknown."""
    card_numa: tuple[int, ...] = ()
    """NUMA node of each of `cards`; empty if all have the same one, or the agent does not report all."""
    pool_cards: tuple[tuple[int, int], ...] = ()
    """(index, slices that containers hold) of each healthy GPU behind `pooled`, as the agent reports it."""
    reported_mig: MigCard | None = None
    """MIG profiles of its cards as the node's agent reports them; None if it reports none."""
    agent: NodeAgent = "unknown"
    cpu_milli: int = UNLIMITED
    memory_bytes: int = UNLIMITED
    extended: dict[str, int] = {}
    """What the node offers of extended resources that no share takes, by name, such as `rdma/hca`."""
    cordoned: frozenset[int] = frozenset()
    """Indices taken out of placement, by the annotation clearml-injector/cordon."""

    @property
    def has_gpus(self) -> bool:
        """Whether the node offers anything that a share takes, or would if its device plugin were there."""
        return bool(self.gpus or self.pool or self.pooled or self.instances)

    @property
    def product(self) -> str:
        """Model of its GPUs by the label nvidia.com/gpu.product; empty without the label."""
        return self.labels.get(GPU_PRODUCT_LABEL) or ""

    @property
    def mig_card(self) -> MigCard | None:
        """How its cards can be divided, as its agent reports or by their model; None if that is unknown."""
        return self.reported_mig or card_of_product(self.product)

    def offered(self) -> dict[Unit, int]:
        """Return what can be allocated of each unit; no pool without slices."""
        found: dict[Unit, int] = dict(self.gpus)
        for number, count in self.instances:
            found[unit_of(number)] = count
        if self.pooled:
            found[POOL] = self.pooled
        return found

    def takes_pods_on(self, unit: Unit) -> bool:
        """Whether new pods may get a GPU, MIG profile or pool of the node, if it has room."""
        return self.usable and unit not in self.cordoned

    def card_mib(self, indices: tuple[int, ...]) -> int | None:
        """MiB of the smallest of some GPUs (empty: of all), from `cards` if it has them, else `gpu_mib`."""
        if not self.cards:
            return self.gpu_mib
        known = dict(self.cards)
        mib = [known[index] for index in indices or known if index in known]
        return min(mib) if mib and len(mib) == len(indices or known) else self.gpu_mib


class QuotaWait(msgspec.Struct, frozen=True, gc=False):
    """How a pod waits for a quota, with our scheduling gate."""

    uid: str
    priority: int = 0
    since: str = ""
    """Creation time, as RFC 3339."""
    gate: int = 0
    """Position of our gate in the pod's list of gates."""
    is_next: bool = True
    """Whether the pod can go: it has no other gate, and is not being deleted."""


class PodFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod. A terminating pod holds its resources until it is deleted."""

    namespace: str
    name: str
    node: str | None = None
    """Node that the pod is bound to."""
    is_over: bool = False
    """Phase Succeeded or Failed: it holds nothing."""
    takes: Amounts = ()
    """The effective request."""
    claimed: tuple[NamedShare, ...] = ()
    """What its claims of shares ask for; the scheduler counts it, and here only quotas do."""
    is_refused: bool = False
    """Whether the scheduler has failed to find room for its claims."""
    claimable: tuple[int, ...] = ()
    """MiB of the cards that these may be parts of, the smallest first: those of its node, else all."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Its other extended resources, by name."""
    more_eighths: int = 0
    """Eighths of cards that the pod's MIG instances are worth, beyond one per instance."""
    products: tuple[str, ...] = ()
    """Values of nvidia.com/gpu.product that the pod requires, if it may get MIG instances."""
    queues: tuple[str, ...] = ()
    """Keys of the pod's ClearML queue (ledger/queue_names.py), by its labels: by name, by id."""
    share: tuple[int, int] | None = None
    """Numerator and denominator of the fraction label, per GPU; None without one."""
    asked_mib: int = 0
    """MiB of the memory label, per GPU (for all containers together if they share it); 0 without one."""
    sharing: int = 1
    """Containers that share `asked_mib`."""
    in_slices: bool = False
    """Whether the pod was injected without MiB: its limit is its slices, whatever the label says."""
    reservation: str | None = None
    """Reservation that the pod's annotation names."""
    promised_node: str | None = None
    """Node that an unbound pod prefers by name, until the scheduler has failed to place the pod."""
    memory_values: tuple[str, ...] | None = None
    """Values of nvidia.com/gpu.memory that an unbound pod requires; None for any."""
    model: str | None = None
    """The only value of nvidia.com/gpu.product that an unbound pod requires; None for any or several."""
    owner: str = ""
    """Key of the owner that it is a replica of (ledger/owners.py); empty without slices or owner."""
    quota_wait: QuotaWait | None = None
    """How the labelled pod waits for a quota, which does not count it yet; None if it does not."""
    is_reserved: bool = False
    """Whether it is a reservation, by whose name: its pod was only placed and has not appeared."""

    @property
    def key(self) -> PodKey:
        """Unique among the pods of a cluster at any one time."""
        return self.namespace, self.name

    @property
    def waits_for_quota(self) -> bool:
        """Whether no quota counts the pod yet."""
        return self.quota_wait is not None

    @property
    def models(self) -> tuple[str, ...]:
        """Known values of nvidia.com/gpu.product that the pod requires; empty for any."""
        return (self.model,) if self.model is not None else self.products

    @property
    def gpus(self) -> tuple[tuple[int, int], ...]:
        """(index, slices) of each requested GPU, by index."""
        return tuple([(unit, amount) for unit, amount in self.takes if isinstance(unit, Gpu)])

    @property
    def pooled(self) -> int:
        """Slices of the pool that the pod requests."""
        return sum([amount for unit, amount in self.takes if unit is POOL])

    @property
    def slices(self) -> int:
        """All requested slices; MIG instances count as the eighths that they are worth."""
        return sum([amount for _, amount in self.takes]) + self.more_eighths

    @property
    def counted_slices(self) -> int:
        """Slices as quotas count them: a claim counts as eighths of cards."""
        claimed = [share.eighths(self.claimable) for share in self.claimed] if self.claimed else ()
        return self.slices + sum(claimed)
