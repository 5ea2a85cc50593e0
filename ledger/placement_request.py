"""The question to the ledger and its three possible answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from kube.names import GPU_PRODUCT_LABEL, MAX_LABEL_VALUE, MAX_NAME
from kube.scheduling import Constraints, Requirement, with_requirement
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.instance import ONE_INSTANCE, Instance
from modes.mode import DEFAULT_MODE, Mode, ModeName
from modes.registry import INSTANCE_MODE, MODES

_LabelValue = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)]
_QueueKey = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE + 1)]
Oversized = Literal["wait", "take"]
"""`take`: as soon as nothing else has room; `wait`: only where nothing else could ever hold the pod."""
MAX_OWNER = 16
"""Characters of an owner's key."""
MAX_RESOURCE = MAX_NAME + 1 + MAX_LABEL_VALUE
"""Characters of an extended resource: its domain, a slash and its name."""
MAX_HOSTS = 16
"""Hosts that one pod names, or shuts out."""
_ReservationName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Amount = Annotated[int, msgspec.Meta(ge=0)]
"""Checked where a request is decoded: less than nothing would be room that nobody has."""


MAX_ASSUMED_GPUS, MAX_ASSUMED_MIB = 1000, 100_000_000
"""As in a policy: each GPU is looked at, also those of a caller that is no webhook."""


class Assumption(msgspec.Struct, frozen=True):
    """What to take for granted of nodes that do not exist yet (clusters that scale from zero)."""

    gpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=MAX_ASSUMED_GPUS)]
    gpu_mib: Annotated[int, msgspec.Meta(ge=1, le=MAX_ASSUMED_MIB)]
    """MiB of one GPU."""


QuotaUnit = Literal["slices", "pods", "MiB"]


class Quota(msgspec.Struct, frozen=True):
    """A limit on what one namespace or one ClearML queue may hold, running and pending together."""

    scope: Literal["namespace", "queue"]
    name: str
    slices: _Amount | None = None
    max_pods: _Amount | None = None
    keys: tuple[str, ...] = ()
    """Of a queue, by name and by id: pods of either count, once. Empty stands for the name alone."""
    namespaces: tuple[str, ...] | None = None
    """Where pods of a queue count; None is everywhere but in `other_namespaces`."""
    other_namespaces: tuple[str, ...] = ()
    memory_mib: _Amount | None = None
    """MiB of GPU memory, summed over all GPUs."""

    @property
    def shuts_by(self) -> QuotaUnit | None:
        """The unit of which it allows none at all; None where it allows some of each."""
        if self.max_pods == 0:
            return "pods"
        if self.slices == 0:
            return "slices"
        return "MiB" if self.memory_mib == 0 else None


class Placement(msgspec.Struct, frozen=True, gc=False):
    """Where a pod's slices go. Empty `indices` in pooled mode: the kubelet chooses the GPUs."""

    indices: tuple[_Amount, ...]
    gpu_mib: _Amount
    """MiB of one GPU of the chosen kind."""
    memory_values: tuple[str, ...]
    """Values of the node label nvidia.com/gpu.memory whose share comes to the same MiB, sorted by number.

    Empty when the placement is assumed, or when memory does not bind: whole GPUs, fractions that an agent
    limits.
    """
    node: str | None = None
    """The node to prefer; None when no node has room now."""
    reservation: _ReservationName | None = None
    model: str | None = None
    """Value of the node label nvidia.com/gpu.product that the pod must keep to; None when it need not."""
    slices: _Amount = 0
    """Slices on each GPU, where MiB were asked for; 0 where the request says them itself."""
    models: tuple[str, ...] = ()
    """Values of the node label nvidia.com/gpu.product that the pod may have; empty where it takes any."""
    hosts: Annotated[tuple[_LabelValue, ...], msgspec.Meta(max_length=MAX_HOSTS)] = ()
    """Values of the node label kubernetes.io/hostname, one of which the pod's node must have: no label tells
    what the cards there are, and `models` are none. Empty where labels do."""
    other_hosts: Annotated[tuple[_LabelValue, ...], msgspec.Meta(max_length=MAX_HOSTS)] = ()
    """Values of that label that the pod must not have: cards there are not what their labels say."""
    other_memory_values: tuple[str, ...] = ()
    """Of an assumed placement: values of that label in the cluster on whose GPUs the MiB that were asked for
    come to other slices."""
    degraded: bool = False
    """Made without the controller, from a last snapshot or an assumption."""
    containers: tuple[_Amount, ...] = ()
    """Index of each container's GPU, where several share a pod's part and no one GPU had room for all."""
    instance: Instance | None = None
    """The MIG instance that the pod is given instead of slices; None in other modes."""
    passed_over: str = ""
    """Why the mode that the policy prefers was not taken; empty where it was, or where there is one only."""


class RequestedShare(msgspec.Struct, frozen=True, gc=False):
    """What a pod takes of its node."""

    fraction: Fraction
    mode: ModeName = DEFAULT_MODE
    cpu_milli: _Amount = 0
    """Effective CPU request, milli-CPU."""
    memory_bytes: _Amount = 0
    """Effective memory request, bytes."""
    writes_limits: bool = True
    """Whether MiB of the share are written into the pod; if not, the node's agent limits it by the card."""
    any_gpu: bool = False
    """Whether containers that share the pod's part may be on different GPUs of a node if none holds all."""
    instance: Instance | None = None
    """The one kind of MIG instance that is looked for: the ledger asks for one after the other."""
    reserve_mib: _Amount = 0
    """The policy's reserve: `fraction.mib` holds one for each container in addition to what is requested."""

    @property
    def asked_mib(self) -> int:
        """MiB of each GPU that the pod requests, of all where containers share them; 0 where it does not."""
        fraction, containers = self.fraction, len(self.fraction.split_mib) or 1
        return fraction.mib - self.reserve_mib * containers if fraction.mib else 0

    @property
    def slices(self) -> int:
        """What quotas count of it: slices, or the eighths that its MIG instance is worth."""
        return self.fraction.slices if self.instance is None else self.instance.eighths

    @property
    def stock(self) -> int | None:
        """Of what a node offers the part that the pod takes from (`Mode.stocks`)."""
        return None if self.instance is None or self.instance.is_pool else self.instance.number

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether the pod may only go where its share comes to the MiB that were written into it.

        Where MiB were requested and the node's agent limits: where its slices are the fewest that hold them.
        """
        asks_agent = bool(self.fraction.mib) and self.needs_agent
        return (self.writes_limits or asks_agent) and not self.fraction.is_whole

    @property
    def needs_agent(self) -> bool:
        """Whether only an agent on its node can limit the pod."""
        is_limited = self.writes_limits or self.instance is not None or self.mode_type.gives_instances
        return not is_limited and not self.fraction.is_whole

    @property
    def mode_type(self) -> type[Mode]:
        """How the mode counts GPUs."""
        return MODES[self.mode]

    def as_instance(self, instance: Instance) -> RequestedShare:
        """Return the share as one MIG instance of a kind."""
        return msgspec.structs.replace(
            self, fraction=ONE_INSTANCE, instance=instance, writes_limits=False, mode=INSTANCE_MODE
        )

    def allocated(self, placement: Placement) -> AllocatedShare:
        """Return what a pod gets by a placement.

        Raises:
            ValueError: the placement does not go with the share.
        """
        share = self._resized(placement)
        return AllocatedShare(placement, share, *_usage(share.fraction, placement))

    def _resized(self, placement: Placement) -> RequestedShare:
        """Return the share with the slices, the containers' GPUs or the instance of a placement."""
        if placement.instance is not None:
            return self.as_instance(placement.instance)
        fraction = self.fraction.apart() if placement.containers else self.fraction
        if fraction.split_mib:
            fraction = fraction.on_card(placement.gpu_mib) or fraction
        elif fraction.mib and placement.slices:
            fraction = replace(fraction, slices=placement.slices * fraction.parts)
        return self if fraction is self.fraction else msgspec.structs.replace(self, fraction=fraction)


def _usage(fraction: Fraction, placement: Placement) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the slices that a placement takes, by index and of the pool."""
    if placement.containers:
        used: Counter[int] = Counter()
        for index, slices in zip(placement.containers, fraction.split, strict=False):
            used[index] += slices
        return tuple(sorted(used.items())), 0
    each = fraction.slices_on_each
    gpus = tuple([(index, each) for index in placement.indices])
    return gpus, 0 if gpus else fraction.slices


class AllocatedShare(msgspec.Struct, frozen=True, gc=False):
    """A placement with what the pod gets by it."""

    placement: Placement
    share: RequestedShare
    """The request's, with the slices or the instance that it got."""
    gpus: tuple[tuple[int, int], ...]
    """Slices by GPU index, or one instance by the number of its profile."""
    pooled: int
    """Slices of the pool."""

    def placed(self, **changes: Any) -> AllocatedShare:
        """Return the same share with other fields of its placement, such as the reservation."""
        placement = msgspec.structs.replace(self.placement, **changes)
        return AllocatedShare(placement, self.share, self.gpus, self.pooled)


class Demands(msgspec.Struct, frozen=True, gc=False):
    """Which nodes and GPUs a pod can have: what it demands itself, and what its policy does."""

    constraints: Constraints = Constraints()
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that the pod takes."""
    resource: Annotated[str, msgspec.Meta(max_length=MAX_RESOURCE)] = ""
    """Extended resource of MIG instances that the pod itself requests; empty where it leaves the choice."""
    existing: Placement | None = msgspec.field(default=None, name="keeps")
    """The placement of an earlier review, with the reservation that it names: the pod stays there."""
    prefer: Annotated[tuple[ModeName, ...], msgspec.Meta(max_length=2)] = ()
    """Modes between which room decides, the first of equals; empty where there is only the share's mode."""
    oversized: Oversized = "wait"
    """When the pod takes an instance of more than twice what it requests."""
    place: Literal["pack", "spread"] = "pack"
    """`spread`: of nodes with room, one with the fewest of the owner's pods, and there such a GPU."""
    same_model: bool = False
    """All pods of the owner get GPUs of one model: the first that is placed decides which."""
    assume: Assumption | None = None

    @property
    def reservation(self) -> str | None:
        """The reservation of an earlier review, if the pod names one."""
        return self.existing.reservation if self.existing is not None else None

    @property
    def need_owner(self) -> bool:
        """Whether the placement depends on what the pod is a replica of."""
        return self.same_model or self.place == "spread"


class Accounting(msgspec.Struct, frozen=True, gc=False):
    """Who a pod is counted for, and how: it differs between pods that are alike in all else."""

    namespace: _LabelValue = "default"
    queues: Annotated[tuple[_QueueKey, ...], msgspec.Meta(max_length=2)] = ()
    """Keys of the pod's ClearML queue (ledger/queue_names.py)."""
    reservation: _ReservationName | None = None
    """Name under which to reserve; None (a dry run) leaves the ledger as it was."""
    pod: Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)] = ""
    """Digest of what names the pod before it has a uid: a reservation is for this pod only."""
    owner: Annotated[str, msgspec.Meta(max_length=MAX_OWNER)] = ""
    """Key of what the pod is a replica of (ledger/owners.py); empty where nothing depends on it."""
    quotas: tuple[Quota, ...] = ()
    quotas_when_degraded: Literal["deny", "admit"] = "deny"
    """What becomes of a pod under a quota while nobody can count."""


class PlacementRequest(msgspec.Struct, frozen=True, gc=False):
    """What one pod requests of the ledger."""

    share: RequestedShare
    demands: Demands = Demands()
    accounting: Accounting = Accounting()

    @property
    def keeps_model(self) -> bool:
        """Whether the pod gets the GPU model of its owner's other pods."""
        return self.demands.same_model and bool(self.accounting.owner)

    @property
    def is_spread(self) -> bool:
        """Whether the pod stays away from its owner's other pods."""
        return self.demands.place == "spread" and bool(self.accounting.owner)

    def with_share(self, **changes: Any) -> PlacementRequest:
        """Return the same request with other fields of its share."""
        return PlacementRequest(msgspec.structs.replace(self.share, **changes), self.demands, self.accounting)

    def with_demands(self, **changes: Any) -> PlacementRequest:
        """Return the same request with other fields of its demands."""
        return PlacementRequest(self.share, msgspec.structs.replace(self.demands, **changes), self.accounting)

    def on_card(self, gpu_mib: int | None) -> PlacementRequest:
        """Return the same with the slices that it comes to on such GPUs; itself where that is unknown."""
        fraction = self.share.fraction.on_card(gpu_mib) if gpu_mib is not None else None
        is_same = fraction is None or fraction is self.share.fraction
        return self if is_same else self.with_share(fraction=fraction)

    def for_instance(self, instance: Instance) -> PlacementRequest:
        """Return the same request for one MIG instance of a kind, on nodes where it has the size meant."""
        constraints = self.demands.constraints
        product = Requirement(GPU_PRODUCT_LABEL, "In", instance.products)
        terms = with_requirement(constraints.required_terms, product)
        constraints = msgspec.structs.replace(constraints, required_terms=terms)
        demands = msgspec.structs.replace(self.demands, constraints=constraints, assume=None, prefer=())
        return PlacementRequest(self.share.as_instance(instance), demands, self.accounting)


class Unschedulable(msgspec.Struct, frozen=True, omit_defaults=True):
    """No known node could ever hold the pod (labels, taints, GPU count), and nothing is assumed.

    Or it could not wait: every node would take it at this moment, and fail it.
    """

    why: str
    """Half a sentence for the user, such as "no node has 4 GPUs"."""
    is_too_much: bool = False
    """Nobody knows whether a node could: its demands take too long to compare with all nodes."""
    is_for_now: bool = False
    """Nodes could hold it once pods there end, but it cannot wait for that."""


class OverQuota(msgspec.Struct, frozen=True):
    """The pod would pass a quota."""

    quota: Quota
    used: int
    asked: int
    limit: int
    unit: QuotaUnit


PlacementResult = Placement | Unschedulable | OverQuota
AllocationResult = AllocatedShare | Unschedulable | OverQuota
