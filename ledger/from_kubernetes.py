"""Converts nodes and pods of the Kubernetes API to facts. The rest of the ledger knows only facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube.cordon import indices_of
from kube.dra import CLAIM_NAME
from kube.names import (
    AGENT_TAINT,
    CORDON_ANNOTATION,
    GPU_COUNT_LABEL,
    GPU_MEMORY_LABEL,
    GPU_PRODUCT_LABEL,
    GPU_REPLICAS_LABEL,
    GPU_RESOURCE,
    MAX_LABEL_VALUE,
    QUOTA_GATE,
    is_label_value,
    is_uid,
    label_number,
)
from kube.objects import (
    Node,
    NodeAffinity,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAnnotations,
    PodClaim,
    PodLabels,
    PodStatus,
    preferred_node,
)
from kube.quantity import milli, rounded_up, whole
from kube.resource_requests import Container, effective_request, is_extended
from ledger.claimed_cards import MAX_PARTS
from ledger.instance_worth import with_instance_worth
from ledger.owners import owner_key
from ledger.placement_request import MAX_EXTENDED
from ledger.queue_names import queue_keys
from modes.claim_name import NamedShare, share_of_name
from modes.facts import UNLIMITED, NodeFact, PodFact, QuotaWait
from modes.fraction import Fraction
from modes.memory_text import memory_mib
from modes.resource_names import ResourceNames
from modes.units import POOL, Amounts, Gpu, Profile, Unit, unit_order

MAX_MEMORY_VALUES = 64
"""Values of nvidia.com/gpu.memory that a pod requires: more than a cluster has kinds of GPU."""
MAX_OFFERED = 64
"""Extended resources of a node, other than GPUs, that are counted."""
MAX_CLAIMED = 16
"""Claims of shares of a pod that are read."""
_NO_LABELS, _NO_ANNOTATIONS = PodLabels(), PodAnnotations()
_TEMPLATES = f"{CLAIM_NAME}-"
_LIFE_CYCLE_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    AGENT_TAINT,
    # Of nodes that join, until what they need is there (cluster autoscaler, Karpenter, node readiness).
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "readiness.k8s.io/",
    # Of nodes that are about to be deleted: a toleration would put the pod there.
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "cloud.google.com/impending-node-termination",
)
"""Something removes these taints, or their node, so a pod waits and needs no toleration."""
_NOT_READY = "not-ready"
"""How keys of start-up taints of networks and storage end, such as `node.cilium.io/agent-not-ready`."""


def node_from_object(node: Any, names: ResourceNames) -> NodeFact:
    """Read one parsed Node, which may come from YAML.

    Raises:
        ValueError: it is not a Node, or an amount cannot be read.
    """
    return node_fact(msgspec.convert(node, Node), names)


def pod_from_object(pod: Any, names: ResourceNames) -> PodFact:
    """Read one parsed Pod.

    Raises:
        ValueError: it is not a Pod, or an amount cannot be read.
    """
    return pod_fact(msgspec.convert(pod, Pod), names)


def node_fact(node: Node, names: ResourceNames) -> NodeFact:
    """Return the facts of a node.

    Raises:
        ValueError: an amount cannot be read.
    """
    labels = node.metadata.labels or {}
    spec = node.spec or NodeSpec()
    status = node.status or NodeStatus()
    allocatable = status.allocatable or {}
    gpus = slices_by_index(allocatable, names)
    capacity = status.capacity or allocatable
    pool, pooled, pooled_gpus = pool_of(allocatable, capacity, labels, names)
    life_cycle = [
        taint
        for taint in spec.taints or ()
        if taint.key.startswith(_LIFE_CYCLE_TAINTS) or taint.key.endswith(_NOT_READY)
    ]
    divided = dict(slices_by_index(capacity, names))
    offered = {name: whole(amount) for name, amount in allocatable.items() if is_extended(name)}
    return NodeFact(
        name=node.metadata.name,
        labels=labels,
        taints=tuple(taint for taint in spec.taints or () if taint not in life_cycle),
        # A node without the condition comes from a hand-written inventory.
        usable=not spec.unschedulable
        and all(each.status == "True" for each in status.conditions or () if each.type == "Ready")
        and all(taint.effect == "PreferNoSchedule" for taint in life_cycle),
        gpus=gpus,
        slices_per_gpu=max(divided.values(), default=0),
        pool=pool,
        pooled=pooled,
        pooled_gpus=pooled_gpus,
        instances=instances_by_number(allocatable, names),
        gpu_mib=label_number(labels.get(GPU_MEMORY_LABEL)),
        cpu_milli=milli(allocatable["cpu"]) if "cpu" in allocatable else UNLIMITED,
        memory_bytes=rounded_up(allocatable["memory"]) if "memory" in allocatable else UNLIMITED,
        extended=dict(_others(offered, names)[:MAX_OFFERED]),
        cordoned=indices_of((node.metadata.annotations or {}).get(CORDON_ANNOTATION, "")),
    )


def slices_by_index(amounts: Mapping[str, str | int], names: ResourceNames) -> tuple[tuple[int, int], ...]:
    """Return (index, slices) of each GPU, by index, from a node's allocatable or capacity.

    Raises:
        ValueError: an amount is not a whole number.
    """
    return tuple(
        sorted(
            (unit, whole(amount))
            for name, amount in amounts.items()
            if isinstance(unit := names.unit(name), Gpu)
        )
    )


def instances_by_number(
    allocatable: Mapping[str, str | int], names: ResourceNames
) -> tuple[tuple[int, int], ...]:
    """Return (number of a profile, MIG instances), by number, from a node's allocatable.

    The kubelet keeps reporting zero for profiles that a node no longer has, so these are left out. If all GPU
    amounts are zero, the device plugin is away, and all profiles are returned.

    Raises:
        ValueError: an amount is not a whole number.
    """
    found = [
        (unit.number, whole(amount))
        for name, amount in allocatable.items()
        if isinstance(unit := names.unit(name), Profile)
    ]
    if not found:
        return ()
    is_away = not any(whole(amount) for name, amount in allocatable.items() if names.counts(name))
    return tuple(sorted(each for each in found if each[1] or is_away))


def pool_of(
    amounts: Mapping[str, str | int],
    capacity: Mapping[str, str | int],
    labels: Mapping[str, str],
    names: ResourceNames,
) -> tuple[str, int, int]:
    """Return the name, slices and number of GPUs (0: unknown) of a node's pool; an empty name without one.

    Of several names, the one with most slices is the pool. A node that offers nothing else keeps its pool
    without slices while its device plugin is away, if its capacity or its labels still show GPUs.

    Raises:
        ValueError: an amount is not a whole number.
    """
    found = {
        name: (whole(amounts[name]), whole(capacity.get(name, 0)), name != GPU_RESOURCE)
        for name in names.pooled
        if name in amounts
    }
    name = max(found, key=lambda each: found[each], default="")
    slices, once, _ = found.get(name, (0, 0, False))
    counted, replicas = (
        label_number(labels.get(each)) or 0 for each in (GPU_COUNT_LABEL, GPU_REPLICAS_LABEL)
    )
    if slices:
        return name, slices, slices // replicas if replicas else min(slices, counted)
    has_others = any(names.unit(each) not in {None, POOL} for each in amounts)
    if not name or has_others or not (once or counted):
        return "", 0, 0
    return name, 0, once // replicas if once and replicas else counted


def pod_fact(pod: Pod, names: ResourceNames) -> PodFact:
    """Return the facts of a pod."""
    status, spec, metadata = pod.status, pod.spec, pod.metadata
    request = effective_request(
        spec.containers or (),
        spec.init_containers or (),
        overhead=spec.overhead,
        pod_level=spec.resources.requests if spec.resources else None,
        counts=is_extended,
        is_stored=True,
    )
    takes = _takes(request.extended, names) if request.extended else ()
    affinity = spec.affinity.node_affinity if spec.node_name is None and takes and spec.affinity else None
    may_be_instances = any(not isinstance(unit, Gpu) for unit, _ in takes)
    products = _products(spec.affinity.node_affinity) if spec.affinity and may_be_instances else ()
    labels, annotations = metadata.labels or _NO_LABELS, metadata.annotations or _NO_ANNOTATIONS
    queues = queue_keys(labels.queue_name, labels.queue_id)
    share, asked_mib = _asked(labels) if takes else (None, 0)
    claimed = _claimed(spec.resource_claims) if spec.resource_claims else ()
    is_ours = annotations.injected is not None
    is_gated = is_ours and spec.scheduling_gates and (takes or claimed)
    quota_wait = _quota_wait(pod, labels) if is_gated else None
    fact = PodFact(
        namespace=metadata.namespace,
        name=metadata.name,
        node=spec.node_name,
        is_over=status is not None and status.phase in ("Succeeded", "Failed"),
        takes=takes,
        claimed=claimed,
        is_refused=bool(claimed) and _is_refused(status),
        cpu_milli=request.cpu_milli,
        memory_bytes=request.memory_bytes,
        extended=tuple([each for each in _others(request.extended, names) if each[1]][:MAX_EXTENDED]),
        queues=queues,
        share=share,
        asked_mib=asked_mib,
        sharing=_sharing(spec.containers or (), names) if asked_mib else 1,
        # Injected without MiB: its node's agent limits it to its slices.
        in_slices=bool(share or asked_mib) and is_ours and annotations.memory_mib is None,
        # Users can write annotations of 256 KiB.
        reservation=name if (name := annotations.reservation) and is_uid(name) else None,
        promised_node=_promised_node(affinity, status) if quota_wait is None else None,
        memory_values=_memory_values(affinity),
        model=_model(affinity),
        products=products,
        owner=owner_key(metadata.namespace, metadata.owner_references, metadata.generate_name, queues)
        if takes
        else "",
        quota_wait=quota_wait,
    )
    return with_instance_worth(fact, None) if may_be_instances else fact


def _quota_wait(pod: Pod, labels: PodLabels) -> QuotaWait | None:
    """How an injected pod waits for a quota; on other pods, our gate means nothing."""
    metadata, gates = pod.metadata, pod.spec.scheduling_gates or ()
    at = next((at for at, gate in enumerate(gates) if gate.name == QUOTA_GATE), None)
    if at is None or (labels.fraction is None and labels.gpu_memory is None):
        return None
    is_next = len(gates) == 1 and metadata.deletion_timestamp is None
    created = metadata.creation_timestamp or ""
    return QuotaWait(metadata.uid, pod.spec.priority or 0, created, at, is_next)


def _takes(extended: Mapping[str, int], names: ResourceNames) -> Amounts:
    found: dict[Unit, int] = {}
    for name, amount in extended.items():
        unit = names.unit(name)
        if unit is not None and amount:
            found[unit] = found.get(unit, 0) + amount
    return tuple(sorted(found.items(), key=lambda each: unit_order(each[0])))


def _others(extended: Mapping[str, int], names: ResourceNames) -> Sequence[tuple[str, int]]:
    """Extended resources that are no GPUs, sorted by name."""
    return sorted([each for each in extended.items() if names.unit(each[0]) is None])


def _claimed(claims: Sequence[PodClaim]) -> tuple[NamedShare, ...]:
    """What a pod's claims of shares ask for: only the controller makes templates with such names.

    Injected pods have one. A pod's author can write thousands: those after MAX_CLAIMED are not read, and
    count as the most that a claim can be.
    """
    names = [
        name
        for claim in claims
        if (name := claim.resource_claim_template_name) is not None and name.startswith(_TEMPLATES)
    ]
    shares = [share for name in names[:MAX_CLAIMED] if (share := share_of_name(name)) is not None]
    unread = len(names) - MAX_CLAIMED
    return (*shares, NamedShare(gpus=MAX_PARTS * unread)) if unread > 0 else tuple(shares)


def _asked(labels: PodLabels) -> tuple[tuple[int, int] | None, int]:
    """The labels' request for each GPU, as a ratio or MiB; longer than a label can be counts as none."""
    if labels.gpu_memory is not None:
        return None, memory_mib(labels.gpu_memory, decimal=True) or 0
    text = labels.fraction
    return Fraction.ratio_of_text(text) if text and len(text) <= MAX_LABEL_VALUE else None, 0


def _sharing(containers: Sequence[Container], names: ResourceNames) -> int:
    """Number of regular containers that request slices."""
    asked = [each.resources.requests for each in containers if each.resources is not None]
    return max(1, sum([any(names.counts(name) for name in amounts or ()) for amounts in asked]))


def _promised_node(affinity: NodeAffinity | None, status: PodStatus | None) -> str | None:
    """The node that placement put first. Once the scheduler has failed to place the pod, any node will do."""
    if affinity is None or not affinity.preferred or _is_refused(status):
        return None
    return preferred_node(affinity)


def _is_refused(status: PodStatus | None) -> bool:
    conditions = (status.conditions or ()) if status is not None else ()
    return any(each.type == "PodScheduled" and each.status == "False" for each in conditions)


def _model(affinity: NodeAffinity | None) -> str | None:
    [values, *_] = _required_values(affinity, GPU_PRODUCT_LABEL) or [()]
    return values[0] if len(values) == 1 and is_label_value(values[0]) else None


def _products(affinity: NodeAffinity | None) -> tuple[str, ...]:
    """Valid label values of the last model requirement: injection appends ours after the user's."""
    [*_, values] = _required_values(affinity, GPU_PRODUCT_LABEL) or [()]
    return tuple([value for value in values[:MAX_MEMORY_VALUES] if is_label_value(value)])


def _memory_values(affinity: NodeAffinity | None) -> tuple[str, ...] | None:
    """Valid label values. A pod with more than we ever write counts as accepting any memory.

    A user can write a hundred thousand values, and each placement of a waiting pod would walk them all.
    """
    found = _required_values(affinity, GPU_MEMORY_LABEL)
    if not found or len(found[0]) > MAX_MEMORY_VALUES:
        return None
    return tuple([value for value in found[0] if is_label_value(value)])


def _required_values(affinity: NodeAffinity | None, label: str) -> list[Sequence[str]]:
    """After injection every term has the same GPU requirements, so the first one represents all."""
    terms = (affinity.required.node_selector_terms or ())[:1] if affinity and affinity.required else ()
    return [
        each.values or ()
        for term in terms
        for each in term.match_expressions or ()
        if (each.key, each.operator) == (label, "In")
    ]
