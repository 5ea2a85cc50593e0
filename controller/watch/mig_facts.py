"""The fields of nodes and pods that the geometry loop needs, extracted when they are decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kube.names import (
    MIG_CHANGE_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_CONFIG_STATE_LABEL,
    MIG_DIVIDED_AT_ANNOTATION,
)
from kube.objects import Condition, Node, PodSpec
from kube.quantity import whole
from kube.resource_requests import Container, effective_request
from kube.scheduling import Constraints, Toleration
from modes.mig_profiles import MIG_RESOURCE_PREFIX, is_divided_on_demand

MAX_PROFILES = 8
"""Profiles of a pod that are kept: more than a card has, but a pod may name thousands."""
MAX_CONSTRAINTS = 16 * 1024
"""Bytes of a pod's selectors and tolerations; cards are not divided for a pod with more."""


class MigPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that requests MIG instances."""

    uid: str
    created: str
    wants: tuple[tuple[str, int], ...]
    """Names of profiles, in the form of mig-parted, and numbers of instances."""
    waits: bool
    """Whether the scheduler has found no node for it."""
    constraints: Constraints | None
    """Constraints of a waiting pod; None if they are too long to compare."""
    digest: bytes = b""
    """Digest of its constraints, equal for pods with equal demands."""


class MigNodeFact(msgspec.Struct, frozen=True, gc=False):
    """A node whose cards are divided on demand, that we cordoned for it, or that has instances."""

    is_ours: bool
    """Whether it has the label for division on demand; otherwise we only remove our cordon."""
    config: str
    state: str
    change: str | None
    """Our annotation during a change."""
    amounts: tuple[tuple[str, int], ...]
    """Amounts of the MIG resources that it advertises, by name."""
    divided_at: str | None = None
    """When it was last divided, by our annotation."""


class MigPodSpec(PodSpec, rename="camel", gc=False):
    """`spec` of a pod, with the fields that restrict its nodes."""

    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


def mig_pod(
    uid: str, created: str, spec: MigPodSpec, conditions: Sequence[Condition], *, is_ending: bool = False
) -> MigPod | None:
    """Return a pod's request for MIG instances; None without one.

    It waits if the scheduler found no node for it. A pod that `is_ending` no longer waits.
    """
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if not any(_asks(container) for container in containers):
        return None
    request = effective_request(
        spec.containers or (), spec.init_containers or (), counts=_is_mig, is_stored=True
    )
    wants = sorted((_profile(name), amount) for name, amount in request.extended.items() if amount)
    waits = not is_ending and spec.node_name is None and any(map(is_unschedulable, conditions))
    constraints = _constraints(spec) if waits else None
    if not wants:
        return None
    return MigPod(uid, created, tuple(wants[:MAX_PROFILES]), waits, constraints, _digest(constraints))


def is_unschedulable(condition: Condition) -> bool:
    """Whether the scheduler says that it found no node."""
    found = condition.type, condition.status, condition.reason
    return found == ("PodScheduled", "False", "Unschedulable")


def mig_node(node: Node) -> MigNodeFact | None:
    """Return the state of a node's division; None if it has no instances and is not divided on demand.

    Raises:
        ValueError: an amount cannot be read.
    """
    labels = node.metadata.labels or {}
    annotations = node.metadata.annotations or {}
    change = annotations.get(MIG_CHANGE_ANNOTATION)
    is_ours = is_divided_on_demand(labels)
    amounts = _amounts((node.status and node.status.allocatable) or {})
    if not is_ours and change is None and not amounts:
        return None
    return MigNodeFact(
        is_ours=is_ours,
        config=labels.get(MIG_CONFIG_LABEL, ""),
        state=labels.get(MIG_CONFIG_STATE_LABEL, ""),
        change=change,
        amounts=amounts,
        divided_at=annotations.get(MIG_DIVIDED_AT_ANNOTATION),
    )


def _asks(container: Container) -> bool:
    requests = container.resources.requests if container.resources is not None else None
    return any(_is_mig(name) for name in requests or ())


def _is_mig(name: str) -> bool:
    return name.startswith(MIG_RESOURCE_PREFIX)


def _profile(resource: str) -> str:
    """Return the profile of a resource: "1g.10gb+me" for a name that ends in "mig-1g.10gb.me"."""
    name = resource.removeprefix(MIG_RESOURCE_PREFIX)
    return f"{name.removesuffix('.me')}+me" if name.endswith(".me") else name


def _amounts(allocatable: Mapping[str, str | int]) -> tuple[tuple[str, int], ...]:
    found = ((name, whole(amount)) for name, amount in allocatable.items() if _is_mig(name))
    return tuple(sorted((name, amount) for name, amount in found if amount))


def _constraints(spec: MigPodSpec) -> Constraints | None:
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    found = Constraints(
        node_selector=spec.node_selector or {},
        required_terms=tuple(required.node_selector_terms or ()) if required else None,
        tolerations=spec.tolerations or (),
    )
    return found if found.size() <= MAX_CONSTRAINTS else None


def _digest(constraints: Constraints | None) -> bytes:
    return hashlib.sha256(msgspec.json.encode(constraints)).digest()[:16] if constraints is not None else b""
