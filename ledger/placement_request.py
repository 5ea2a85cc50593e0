"""A pod's request to the ledger, and its three possible answers."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import msgspec

from kube.dra import DriverName
from kube.names import GPU_PRODUCT_LABEL, MAX_LABEL_VALUE, MAX_NAME
from kube.scheduling import Constraints, Requirement, with_requirement
from modes.claim_name import MAX_SIZES, NamedShare, named_share
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.instance import ONE_INSTANCE, Instance
from modes.mode import DEFAULT_MODE, Mode, ModeName
from modes.registry import INSTANCE_MODE, MODES
from modes.units import POOL, Amounts, Unit

_LabelValue = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)]
_QueueKey = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE + 1)]
Oversized = Literal["wait", "take"]
"""When to take an instance of more than twice the request: as soon as nothing else has room (`take`), or only
if nothing else could ever hold the pod (`wait`)."""
MAX_OWNER = 16
"""Characters of an owner's key."""
MAX_RESOURCE = MAX_NAME + 1 + MAX_LABEL_VALUE
"""Characters of an extended resource: its domain, a slash and its name."""
MAX_EXTENDED = 16
"""Other extended resources of one pod that are counted, the first by name."""
MAX_HOSTS = 16
"""Hosts that one pod requires or excludes."""
_ResourceName = Annotated[str, msgspec.Meta(max_length=MAX_RESOURCE)]
_ReservationName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Amount = Annotated[int, msgspec.Meta(ge=0)]
"""Checked when a request is decoded: a negative amount would create room that does not exist."""


MAX_ASSUMED_GPUS, MAX_ASSUMED_MIB = 1000, 100_000_000
"""The bounds of a policy. They hold for every caller, because each GPU is looked at."""


class Assumption(msgspec.Struct, frozen=True):
    """The nodes that a cluster which scales from zero will have."""

    gpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=MAX_ASSUMED_GPUS)]
    gpu_mib: Annotated[int, msgspec.Meta(ge=1, le=MAX_ASSUMED_MIB)]
    """MiB of one GPU."""


QuotaUnit = Literal["slices", "pods", "MiB"]


class Quota(msgspec.Struct, frozen=True):
    """A limit on what one namespace or one ClearML queue holds, running and pending together."""

    scope: Literal["namespace", "queue"]
    name: str
    slices: _Amount | None = None
    max_pods: _Amount | None = None
    keys: tuple[str, ...] = ()
    """Keys of a queue, by name and by id; a pod with either counts, once. Empty: the name is the only key."""
    namespaces: tuple[str, ...] | None = None
    """Namespaces in which a queue's pods count; None means all except `other_namespaces`."""
    other_namespaces: tuple[str, ...] = ()
    memory_mib: _Amount | None = None
    """MiB of GPU memory, summed over all GPUs."""

    @property
    def shuts_by(self) -> QuotaUnit | None:
        """The unit in which the quota is 0, so that it admits no pod; None if all limits are positive."""
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
    """Values of the node label nvidia.com/gpu.memory for which the share gives the same MiB, sorted by
    number.

    Empty if the placement is assumed, or if memory does not restrict it: for whole GPUs, and for fractions
    that an agent limits.
    """
    node: str | None = None
    """Preferred node; None if no node has room now."""
    reservation: _ReservationName | None = None
    model: str | None = None
    """Value of the node label nvidia.com/gpu.product that the pod must require; None if it need not."""
    slices: _Amount = 0
    """Slices on each GPU, if MiB were requested; 0 if the request states the slices."""
    models: tuple[str, ...] = ()
    """Values of the node label nvidia.com/gpu.product that the pod may require; empty for any."""
    hosts: Annotated[tuple[_LabelValue, ...], msgspec.Meta(max_length=MAX_HOSTS)] = ()
    """Values of the node label kubernetes.io/hostname, one of which the pod must require, because no label
    states which cards these nodes have. Empty if `models` decides."""
    other_hosts: Annotated[tuple[_LabelValue, ...], msgspec.Meta(max_length=MAX_HOSTS)] = ()
    """Values of that label that the pod must exclude: cards there differ from the nodes' labels."""
    other_memory_values: tuple[str, ...] = ()
    """Of an assumed placement: values of the label nvidia.com/gpu.memory in the cluster for which the
    requested MiB give other slices."""
    degraded: bool = False
    """Decided without the controller, from the last snapshot or an assumption."""
    containers: tuple[_Amount, ...] = ()
    """GPU index for each container, if several share the pod's part and no one GPU had room for all."""
    instance: Instance | None = None
    """The MIG instance that the pod gets instead of slices; None in other modes."""
    passed_over: str = ""
    """Why the mode that the policy prefers was not taken; empty if it was, or if there is only one mode."""
    waits_for_quota: bool = False
    """Whether the pod must wait for a quota, with our scheduling gate: it has no node, and no quota counts
    it."""
    cards: Annotated[tuple[_Amount, ...], msgspec.Meta(max_length=MAX_SIZES)] = ()
    """MiB of the cards that the pod's claim may take a fraction of, the best first; empty without a claim,
    and for claims whose amount is the same on each card."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPU of each container, or those of the pod; empty if the placement chose none."""
        return () if self.instance is not None else self.containers or self.indices

    @property
    def products(self) -> tuple[str, ...]:
        """Values of the node label nvidia.com/gpu.product that the pod must or may require; empty for any."""
        if self.instance is not None:
            return self.instance.products
        return self.models if self.model is None else (self.model,)

    @property
    def is_more_than_twice(self) -> bool:
        """Whether it is an instance of which more than half would be idle."""
        return self.instance is not None and self.instance.is_more_than_twice


class RequestedShare(msgspec.Struct, frozen=True, gc=False):
    """The share that a pod takes of its node."""

    fraction: Fraction
    mode: ModeName = DEFAULT_MODE
    cpu_milli: _Amount = 0
    """Effective CPU request, milli-CPU."""
    memory_bytes: _Amount = 0
    """Effective memory request, bytes."""
    extended: Annotated[tuple[tuple[_ResourceName, _Amount], ...], msgspec.Meta(max_length=MAX_EXTENDED)] = ()
    """Effective request of extended resources that are no GPUs, such as `rdma/hca`, by name."""
    writes_limits: bool = True
    """Whether the share's MiB are written into the pod. If not, the node's agent limits it by the card."""
    any_gpu: bool = False
    """Whether containers that share the pod's part may use different GPUs of a node if no GPU holds all."""
    instance: Instance | None = None
    """The kind of MIG instance to search for; the ledger tries one kind after the other."""
    reserve_mib: _Amount = 0
    """The policy's reserve: `fraction.mib` includes one for each container, on top of the request."""
    driver: DriverName | None = None
    """The driver of the pod's claim; None in modes without claims."""
    pool: _ResourceName = ""
    """The one name of the slices in mode pooled; empty in other modes."""

    @property
    def asked_mib(self) -> int:
        """Requested MiB of each GPU (for all containers if they share them); 0 for a share in slices."""
        return self.fraction.asked_mib(self.reserve_mib)

    @property
    def slices(self) -> int:
        """Slices as quotas count them; a MIG instance counts as the eighths that it is worth."""
        return self.fraction.slices if self.instance is None else self.instance.eighths

    @property
    def resource_unit(self) -> Unit:
        """The entry of `Mode.resource_units` that the pod takes from."""
        return POOL if self.instance is None else self.instance.unit

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether the pod may only go to GPUs on which its share gives the MiB that were written into it.

        If MiB were requested and the node's agent limits: on which they take as many slices.
        """
        asks_agent = self.fraction.is_of_memory and self.needs_agent
        return (self.writes_limits or asks_agent) and not self.fraction.is_whole

    @property
    def needs_agent(self) -> bool:
        """Whether only an agent on its node can limit the pod."""
        return not (self.writes_limits or self.fraction.is_whole) and self.mode_type.needs_limiter

    @property
    def mode_type(self) -> type[Mode]:
        """The class that defines the mode."""
        return MODES[self.mode]

    def as_instance(self, instance: Instance) -> RequestedShare:
        """Return the share as one MIG instance of this kind."""
        return msgspec.structs.replace(
            self,
            fraction=ONE_INSTANCE,
            instance=instance,
            writes_limits=False,
            mode=INSTANCE_MODE,
            pool="",
            driver=None,
        )

    def is_claim(self, placement: Placement) -> bool:
        """Whether the pod gets a claim by a placement: in modes of claims, unless it gets an instance."""
        return self.mode_type.is_claimed and placement.instance is None

    def allocated(self, placement: Placement) -> AllocatedShare:
        """Return the share that a pod gets by a placement.

        Raises:
            ValueError: the placement does not match the share.
        """
        if self.is_claim(placement):
            return AllocatedShare(placement, self, (), (named_share(self.fraction, placement.cards),))
        share = self._resized(placement)
        return AllocatedShare(placement, share, _taken(share.fraction, placement))

    def _resized(self, placement: Placement) -> RequestedShare:
        """Return the share with the placement's slices, GPUs of containers, or instance."""
        if placement.instance is not None:
            return self.as_instance(placement.instance)
        asked = self.fraction.apart() if placement.containers else self.fraction
        fraction = asked.on_card(placement.gpu_mib) or asked
        return self if fraction is self.fraction else msgspec.structs.replace(self, fraction=fraction)


def _taken(fraction: Fraction, placement: Placement) -> Amounts:
    """Return what a pod with this fraction takes by a placement."""
    if placement.instance is not None:
        return ((placement.instance.unit, fraction.slices),)
    if placement.containers:
        used: Counter[int] = Counter()
        for index, slices in zip(placement.containers, fraction.pieces, strict=False):
            used[index] += slices
        return tuple(sorted(used.items()))
    each = fraction.slices_on_each
    return tuple([(index, each) for index in placement.indices]) or ((POOL, fraction.slices),)


class AllocatedShare(msgspec.Struct, frozen=True, gc=False):
    """A placement, and the share that the pod gets by it."""

    placement: Placement
    share: RequestedShare
    """The requested share, with the slices or the instance that it got."""
    takes: Amounts
    claimed: tuple[NamedShare, ...] = ()
    """What its claim asks for, in modes of claims."""

    def placed(self, **changes: Any) -> AllocatedShare:
        """Return the same share with changed fields of its placement, such as the reservation."""
        placement = msgspec.structs.replace(self.placement, **changes)
        return AllocatedShare(placement, self.share, self.takes, self.claimed)


class Demands(msgspec.Struct, frozen=True, gc=False):
    """Which nodes and GPUs a pod accepts, by its own fields and by its policy."""

    constraints: Constraints = Constraints()
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that the pod accepts."""
    resource: _ResourceName = ""
    """Extended resource of the MIG instances that the pod itself requests; empty if it leaves the choice."""
    existing: Placement | None = None
    """The placement of an earlier review, with the reservation that it names: the pod keeps it."""
    prefer: Annotated[tuple[ModeName, ...], msgspec.Meta(max_length=2)] = ()
    """Modes from which free room chooses; the first wins a tie. Empty if only the share's mode is
    possible."""
    oversized: Oversized = "wait"
    """When the pod takes an instance of more than twice its request."""
    place: Literal["pack", "spread"] = "pack"
    """`spread`: choose a node, and a GPU there, with the fewest of the owner's pods among those with room."""
    when_over_quota: Literal["deny", "wait"] = "deny"
    """Whether a pod over a quota is denied, or waits with our scheduling gate."""
    is_gated: bool = False
    """Whether the pod has that gate already, or gets it in any case: no quota counts it."""
    same_model: bool = False
    """Whether all pods of the owner get GPUs of one model: the first placed pod decides which."""
    assume: Assumption | None = None
    awaits_names: bool = False
    """Whether agents may offer their cards under the policy's names soon, as the policy has just changed."""

    @property
    def reservation(self) -> str | None:
        """The reservation of an earlier review, if the pod names one."""
        return self.existing.reservation if self.existing is not None else None

    @property
    def need_owner(self) -> bool:
        """Whether the placement depends on the pod's owner."""
        return self.same_model or self.place == "spread"


class Accounting(msgspec.Struct, frozen=True, gc=False):
    """What a pod is counted for, and how. It differs between pods that are otherwise alike."""

    namespace: _LabelValue = "default"
    queues: Annotated[tuple[_QueueKey, ...], msgspec.Meta(max_length=2)] = ()
    """Keys of the pod's ClearML queue (ledger/queue_names.py)."""
    reservation: _ReservationName | None = None
    """Name of the reservation to make; None (a dry run) changes nothing in the ledger."""
    pod: Annotated[str, msgspec.Meta(max_length=MAX_LABEL_VALUE)] = ""
    """Digest that identifies the pod before it has a uid: a reservation is only for this pod."""
    owner: Annotated[str, msgspec.Meta(max_length=MAX_OWNER)] = ""
    """Key of the pod's owner (ledger/owners.py); empty if nothing depends on it."""
    quotas: tuple[Quota, ...] = ()
    quotas_when_degraded: Literal["deny", "admit"] = "deny"
    """What to do with a pod under a quota while the controller, which counts, is away."""
    waits_when_degraded: bool = False
    """Whether it waits with our scheduling gate instead."""


class PlacementRequest(msgspec.Struct, frozen=True, gc=False):
    """The request of one pod to the ledger."""

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
        """Return the same request with changed fields of its share."""
        return PlacementRequest(msgspec.structs.replace(self.share, **changes), self.demands, self.accounting)

    def with_demands(self, **changes: Any) -> PlacementRequest:
        """Return the same request with changed fields of its demands."""
        return PlacementRequest(self.share, msgspec.structs.replace(self.demands, **changes), self.accounting)

    def on_card(self, gpu_mib: int | None) -> PlacementRequest:
        """Return the same request with its slices on a GPU of this size; unchanged if they do not differ."""
        fraction = self.share.fraction.on_card(gpu_mib) if gpu_mib is not None else None
        is_same = fraction is None or fraction is self.share.fraction
        return self if is_same else self.with_share(fraction=fraction)

    def for_instance(self, instance: Instance) -> PlacementRequest:
        """Return the same request for one MIG instance of this kind, on nodes where it has the right size."""
        constraints = self.demands.constraints
        product = Requirement(GPU_PRODUCT_LABEL, "In", instance.products)
        terms = with_requirement(constraints.required_terms, product)
        constraints = msgspec.structs.replace(constraints, required_terms=terms)
        demands = msgspec.structs.replace(self.demands, constraints=constraints, assume=None, prefer=())
        return PlacementRequest(self.share.as_instance(instance), demands, self.accounting)


class Unschedulable(msgspec.Struct, frozen=True, omit_defaults=True):
    """No known node could ever hold the pod (labels, taints, GPU count), and the policy assumes none.

    Or the pod cannot wait: every node would accept it now and then fail it.
    """

    why: str
    """Half a sentence for the user, such as "no node has 4 GPUs"."""
    is_for_now: bool = False
    """Whether nodes could hold it once pods there end, although it cannot wait for that."""
    lacks_names: bool = False
    """Whether the nearest nodes offer no GPUs under the policy's names."""


class OverQuota(msgspec.Struct, frozen=True):
    """The pod would exceed a quota."""

    quota: Quota
    used: int
    asked: int
    limit: int
    unit: QuotaUnit


PlacementResult = Placement | Unschedulable | OverQuota
AllocationResult = AllocatedShare | Unschedulable | OverQuota
