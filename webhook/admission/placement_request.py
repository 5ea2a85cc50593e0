"""The placement request of a pod: the data with which the ledger chooses its GPUs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kube.names import MAX_NAME
from kube.resource_requests import EffectiveRequest, effective_request, is_extended, no_extended
from kube.scheduling import Constraints, Toleration
from ledger.placement_request import (
    MAX_EXTENDED,
    MAX_RESOURCE,
    Accounting,
    Placement,
    PlacementRequest,
    RequestedShare,
)
from policies.model.effective import EffectivePolicy
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason
from webhook.admission.instances import named_instance
from webhook.admission.kept_claim import driver_of, has_claim
from webhook.admission.pod import PodSpec
from webhook.admission.quota_gate import has_gate
from webhook.admission.reinvocation import keeps_assumption
from webhook.admission.validated import Validated

MAX_DEMANDS = 100
"""Of each kind: nodeSelector labels, tolerations, terms, expressions and fields of required node affinity."""
MAX_VALUES = 1000
"""In all expressions and fields."""
MAX_KEPT_VALUES = 64
"""Maximum values of GPU memory in the request, of those to which the pod is bound already."""


def placement_request(validated: Validated, accounting: Accounting) -> PlacementRequest | Denial:
    """Return the placement request of a validated pod, or a denial of its demands.

    For a pod with an existing placement only the quotas are checked.

    Args:
        validated: the pod.
        accounting: the part of the request that is specific to this pod.
    """
    spec, policy, kept = validated.spec, validated.policy, validated.kept
    constraints: Constraints | Denial
    if kept is None or keeps_assumption(validated):
        constraints = refuse_many_demands(spec) or Constraints(
            spec.node_selector or {}, required_terms(spec), _tolerations(spec, policy), spec.node_name
        )
    else:
        # A pod that names its node can have no scheduling gate.
        constraints = Constraints(node_name=(spec.node_name or "")[:MAX_NAME] or None)
    if isinstance(constraints, Denial):
        return constraints
    try:
        amounts = _amounts(spec, policy)
    except ValueError as error:
        return Denial.of(Reason.UNREADABLE, f"resource requests of the pod: {error}; use one")
    share = RequestedShare(
        fraction=validated.fraction,
        mode=policy.mode.name,
        cpu_milli=amounts.cpu_milli,
        memory_bytes=amounts.memory_bytes,
        extended=tuple(sorted(filter(_decides, amounts.extended.items()))[:MAX_EXTENDED]),
        writes_limits=policy.writes_limits,
        any_gpu=policy.containers == "any-gpu" and len(validated.containers.parts) > 1,
        reserve_mib=policy.reserve_mib,
        driver=driver_of(policy),
        pool=policy.mode.pool,
    )
    demands = msgspec.structs.replace(
        policy.demands,
        constraints=constraints,
        kinds=validated.kinds,
        resource=named_instance(validated.containers),
        is_gated=has_gate(spec),
        existing=_existing(validated),
    )
    if demands.prefer and has_claim(validated):
        demands = msgspec.structs.replace(demands, prefer=(policy.mode.name,))
    return PlacementRequest(share, demands, accounting)


def refuse_many_demands(spec: PodSpec) -> Denial | None:
    """Refuse a pod that would block the ledger for seconds, such as with 2,000 terms on 1,000 nodes."""
    terms = required_terms(spec) or ()
    requirements = [
        each for term in terms for each in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    values = sum([len(each.values or ()) for each in requirements])
    for what, count, most in (
        ("nodeSelector labels", len(spec.node_selector or ()), MAX_DEMANDS),
        ("tolerations", len(spec.tolerations or ()), MAX_DEMANDS),
        ("expressions in required node affinity", len(requirements), MAX_DEMANDS),
        ("terms in required node affinity", len(terms), MAX_DEMANDS),
        ("values in required node affinity", values, MAX_VALUES),
    ):
        if count > most:
            advice = "label the nodes, and require that label"
            return Denial.of(Reason.MANY_DEMANDS, f"the pod has {count} {what}, more than {most}: {advice}")
    return None


def _existing(validated: Validated) -> Placement | None:
    """Return the pod's existing placement, limited to what our own patch can contain."""
    kept = validated.kept
    if kept is None:
        return None
    values = () if keeps_assumption(validated) else kept.memory_values[:MAX_KEPT_VALUES]
    return msgspec.structs.replace(kept, memory_values=values)


def _amounts(spec: PodSpec, policy: EffectivePolicy) -> EffectiveRequest:
    try:
        return _added_up(spec, lambda name: is_extended(name) and policy.mode.kinds[name] is None)
    except ValueError:
        return _added_up(spec, no_extended)  # Kubernetes denies wrong amounts of these


def _decides(resource: tuple[str, int]) -> bool:
    """Whether an amount can exclude nodes; Kubernetes denies a name that is too long."""
    name, amount = resource
    return amount > 0 and len(name) <= MAX_RESOURCE


def _added_up(spec: PodSpec, counts: Callable[[str], bool]) -> EffectiveRequest:
    return effective_request(
        spec.containers or (),
        spec.init_containers or (),
        overhead=spec.overhead,
        pod_level=spec.resources.requests if spec.resources is not None else None,
        counts=counts,
    )


def _tolerations(spec: PodSpec, policy: EffectivePolicy) -> tuple[Toleration, ...]:
    own = tuple(spec.tolerations or ())
    if not policy.tolerations:
        return own
    names = ("key", "operator", "value", "effect")
    return (*own, *(Toleration(*map(added.get, names)) for added in policy.tolerations))
