"""The placement request of a pod: what the ledger has to know to choose its GPUs."""

from __future__ import annotations

from typing import Literal

import msgspec

from kube.resource_requests import EffectiveRequest, effective_request
from kube.scheduling import Constraints, Toleration
from ledger.placement_request import Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import PodSpec
from webhook.admission.scheduling_demands import refuse_many_demands
from webhook.admission.validate import Validated

MAX_KEPT_VALUES = 64
"""Values of GPU memory, of those that a pod is bound to already, that the ledger is told."""


class Requester(msgspec.Struct, frozen=True, gc=False):
    """The fields of a placement request that are one pod's own, and not part of its cache key."""

    namespace: str
    queues: tuple[str, ...] = ()
    """Keys of its ClearML queue."""
    reservation: str | None = None
    """None leaves no trace (a dry run)."""
    identity: str = ""
    """Of webhook/admission_review.py; only where there is a quota to pass."""
    owner: str = ""
    """Key of what it is a replica of; only where its placement hangs on that."""


def placement_request(validated: Validated, pod: Requester) -> PlacementRequest | Denial:
    """Return the placement request of a validated pod, or the denial of what it demands.

    Of a pod that keeps its placement only the quotas are checked.
    """
    spec, policy, kept = validated.spec, validated.policy, validated.kept
    constraints: Constraints | Denial = Constraints()
    if kept is None or validated.keeps_assumption:
        constraints = refuse_many_demands(spec) or _constraints(spec, policy)
    if isinstance(constraints, Denial):
        return constraints
    try:
        amounts = _amounts(spec)
    except ValueError as error:
        return Denial.of(Reason.UNREADABLE, f"resource requests of the pod: {error}; write one")
    request = PlacementRequest(
        fraction=validated.fraction,
        mode=policy.mode.name,
        constraints=constraints,
        cpu_milli=amounts.cpu_milli,
        memory_bytes=amounts.memory_bytes,
        assume=policy.assume,
        keeps=_keeps(validated),
        kinds=validated.kinds,
        writes_limits=policy.writes_limits,
        any_gpu=policy.containers == "any-gpu" and len(validated.containers.parts) > 1,
        resource=validated.resource,
        oversized=policy.oversized,
        prefer=policy.prefer,
        reserve_mib=policy.reserve_mib,
    )
    return for_requester(request, pod, policy)


def for_requester(request: PlacementRequest, pod: Requester, policy: EffectivePolicy) -> PlacementRequest:
    """Return the same placement request for another pod, with the quotas of its policy."""
    return PlacementRequest(
        request.fraction,
        request.mode,
        pod.namespace,
        pod.queues,
        request.constraints,
        request.cpu_milli,
        request.memory_bytes,
        request.assume,
        tuple([rule.quota for rule in policy.quotas]) if policy.quotas else (),
        _when_degraded(policy) if policy.quotas else "admit",
        pod.reservation,
        request.keeps,
        pod.identity,
        pod.owner,
        policy.place,
        policy.same_model,
        request.writes_limits,
        request.kinds,
        request.any_gpu,
        request.resource,
        request.oversized,
        request.prefer,
        reserve_mib=request.reserve_mib,
    )


def _keeps(validated: Validated) -> Placement | None:
    """What the pod brings, without more than a pod of ours would hold."""
    kept = validated.kept
    if kept is None:
        return None
    values = () if validated.keeps_assumption else kept.memory_values[:MAX_KEPT_VALUES]
    return msgspec.structs.replace(kept, memory_values=values)


def _constraints(spec: PodSpec, policy: EffectivePolicy) -> Constraints:
    return Constraints(
        node_selector=spec.node_selector or {},
        required_terms=required_terms(spec),
        tolerations=_tolerations(spec, policy),
        node_name=spec.node_name,
    )


def _when_degraded(policy: EffectivePolicy) -> Literal["deny", "admit"]:
    """Admit only where every quota of the pod says so."""
    return "admit" if all(rule.when_degraded == "admit" for rule in policy.quotas) else "deny"


def _amounts(spec: PodSpec) -> EffectiveRequest:
    return effective_request(
        spec.containers or (),
        spec.init_containers or (),
        overhead=spec.overhead,
        pod_level=spec.resources.requests if spec.resources is not None else None,
    )


def _tolerations(spec: PodSpec, policy: EffectivePolicy) -> tuple[Toleration, ...]:
    """The pod's own, and those that the policy adds."""
    own = tuple(spec.tolerations or ())
    if not policy.tolerations:
        return own
    names = ("key", "operator", "value", "effect")
    return (*own, *(Toleration(*map(added.get, names)) for added in policy.tolerations))
