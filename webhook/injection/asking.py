"""What is asked of the ledger for a pod."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger.ask import Ask
from ledger.constraints import Constraints, Toleration
from ledger.fraction import Fraction
from ledger.requests import EffectiveRequest, effective_request
from policies.effective import EffectivePolicy
from webhook.injection.affinity import required_terms
from webhook.injection.demands import refuse_many_demands
from webhook.injection.plan import Plan
from webhook.pod import QUEUE_NAME_LABEL, Pod, PodSpec
from webhook.reasons import Denial, Reason

_NOTHING_DEMANDED = PodSpec()


def ask_of(plan: Plan, reservation: str | None) -> Ask | Denial:
    """Put the plan's question to the ledger; `reservation` None leaves no trace (a dry run).

    Of a pod that is bound to its memory already, only the quotas are in question.
    """
    try:
        request = request_of(plan.spec)
    except ValueError as error:
        return Denial.of(Reason.UNREADABLE, f"resource requests of the pod: {error}")
    kept = plan.kept
    pod = Pod(plan.metadata, plan.spec)
    if kept is None:
        return ask_for(pod, plan.namespace, plan.policy, plan.fraction, request, reservation)
    if not plan.keeps_assumption:
        pod = Pod(plan.metadata)
    ask = ask_for(pod, plan.namespace, plan.policy, plan.fraction, request, reservation)
    return ask if isinstance(ask, Denial) else msgspec.structs.replace(ask, kept=kept.reservation)


def ask_for(  # noqa: PLR0913, PLR0917 each is a part of the question
    pod: Pod,
    namespace: str,
    policy: EffectivePolicy,
    fraction: Fraction,
    request: EffectiveRequest,
    reservation: str | None,
) -> Ask | Denial:
    """Ask for a share of a pod whose requests are added up already."""
    metadata, spec = pod.metadata, pod.spec or _NOTHING_DEMANDED
    denial = refuse_many_demands(spec)
    if denial is not None:
        return denial
    return Ask(
        fraction,
        policy.mode,
        namespace,
        metadata.labels.get(QUEUE_NAME_LABEL) if metadata is not None and metadata.labels else None,
        Constraints(
            spec.node_selector or {},
            required_terms(spec) if spec.affinity is not None else None,
            _tolerations(spec, policy),
            spec.node_name,
        ),
        request.cpu_milli,
        request.memory_bytes,
        policy.assume,
        tuple([rule.quota for rule in policy.quotas]) if policy.quotas else (),
        _when_degraded(policy) if policy.quotas else "admit",
        reservation,
    )


def request_of(spec: PodSpec) -> EffectiveRequest:
    """Add up what a pod requests of CPU and memory.

    Raises:
        ValueError: a quantity cannot be read.
    """
    return effective_request(
        spec.containers or (),
        spec.init_containers or (),
        overhead=spec.overhead,
        pod_level=spec.resources.requests if spec.resources is not None else None,
    )


def _when_degraded(policy: EffectivePolicy) -> Literal["deny", "admit"]:
    """Admit only where every quota of the pod says so."""
    return "admit" if all(rule.when_degraded == "admit" for rule in policy.quotas) else "deny"


def _tolerations(spec: PodSpec, policy: EffectivePolicy) -> tuple[Toleration, ...]:
    """The pod's own, and those that the policy adds."""
    own = tuple(spec.tolerations or ())
    if not policy.tolerations:
        return own
    names = ("key", "operator", "value", "effect")
    return (*own, *(Toleration(*map(added.get, names)) for added in policy.tolerations))
