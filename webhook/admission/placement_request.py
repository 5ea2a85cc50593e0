"""What is asked of the ledger for a pod."""

from __future__ import annotations

from typing import Literal

import msgspec

from kube.requests import EffectiveRequest, effective_request
from kube.scheduling import Constraints, Toleration
from ledger.placement_request import Placement, PlacementRequest
from policies.model.effective import EffectivePolicy
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import PodSpec
from webhook.admission.scheduling_demands import refuse_many_demands
from webhook.admission.validate import Plan

MAX_KEPT_VALUES = 64
"""Values of GPU memory, of those that a pod is bound to already, that the ledger is told."""


class AskingPod(msgspec.Struct, frozen=True, gc=False):
    """What a question to the ledger has of one pod alone, and of no other of its form."""

    namespace: str
    queues: tuple[str, ...] = ()
    """Keys of its ClearML queue."""
    reservation: str | None = None
    """None leaves no trace (a dry run)."""
    identity: str = ""
    """Of webhook/envelope.py; only where there is a quota to pass."""
    owner: str = ""
    """Key of what it is a replica of; only where its placement hangs on that."""


def ask_of(plan: Plan, pod: AskingPod) -> PlacementRequest | Denial:
    """Put the plan's question to the ledger.

    Of a pod that is bound to its memory already, only the quotas are in question.
    """
    spec, policy, kept = plan.spec, plan.policy, plan.kept
    constraints: Constraints | Denial = Constraints()
    if kept is None or plan.keeps_assumption:
        constraints = refuse_many_demands(spec) or _constraints(spec, policy)
    if isinstance(constraints, Denial):
        return constraints
    try:
        request = _request(spec)
    except ValueError as error:
        return Denial.of(Reason.UNREADABLE, f"resource requests of the pod: {error}; write one")
    ask = PlacementRequest(
        fraction=plan.fraction,
        mode=policy.mode.name,
        constraints=constraints,
        cpu_milli=request.cpu_milli,
        memory_bytes=request.memory_bytes,
        assume=policy.assume,
        keeps=_keeps(kept),
    )
    return for_pod(ask, pod, policy)


def for_pod(ask: PlacementRequest, pod: AskingPod, policy: EffectivePolicy) -> PlacementRequest:
    """Put the same question for another pod, with the quotas of its policy."""
    return PlacementRequest(
        ask.fraction,
        ask.mode,
        pod.namespace,
        pod.queues,
        ask.constraints,
        ask.cpu_milli,
        ask.memory_bytes,
        ask.assume,
        tuple([rule.quota for rule in policy.quotas]) if policy.quotas else (),
        _when_degraded(policy) if policy.quotas else "admit",
        pod.reservation,
        ask.keeps,
        pod.identity,
        pod.owner,
        policy.place,
        policy.same_model,
    )


def _keeps(kept: Placement | None) -> Placement | None:
    """What the pod brings, without more than a pod of ours would hold."""
    if kept is None or len(kept.memory_values) <= MAX_KEPT_VALUES:
        return kept
    return msgspec.structs.replace(kept, memory_values=kept.memory_values[:MAX_KEPT_VALUES])


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


def _request(spec: PodSpec) -> EffectiveRequest:
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
