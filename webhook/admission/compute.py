"""The annotation by which a pod limits its own compute: never more loosely than its policy does."""

from __future__ import annotations

import re

from kube.names import COMPUTE_ANNOTATION
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.containers import Containers
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_SHOWN = 16
"""Characters of what was written that a denial repeats."""
_PERCENT = re.compile(r"[1-9][0-9]?", re.ASCII)


def asked_compute(metadata: ObjectMeta) -> str | None:
    """Return per cent of each GPU's compute as the annotation has them; None without the annotation."""
    return (metadata.annotations or {}).get(COMPUTE_ANNOTATION)


def refuse_compute(
    metadata: ObjectMeta, fraction: Fraction, containers: Containers, policy: EffectivePolicy
) -> Denial | None:
    """Deny an annotation that holds the pod to nothing, or to less than its policy does."""
    text = asked_compute(metadata)
    if text is None:
        return None
    said = f'annotation {COMPUTE_ANNOTATION} "{cut_text(text, MAX_SHOWN)}"'
    if _PERCENT.fullmatch(text) is None:
        return _denied(f"{said} is no whole number from 1 to 99: write the per cent of a GPU's compute")
    problem = _problem_of_pod(fraction, containers, policy) or _problem_of_policy(policy)
    if problem is not None:
        return _denied(f"{said} limits no compute, {problem}: leave it out")
    most = _most(fraction, policy)
    if int(text) <= most:
        return None
    return _denied(f"{said} is more than the {most} of policy {policy.name}: write less, or leave it out")


def _problem_of_pod(fraction: Fraction, containers: Containers, policy: EffectivePolicy) -> str | None:
    """Return what of the pod keeps its compute from being limited so."""
    if fraction.is_whole:
        return "whole GPUs have all of theirs"
    if containers.parts:
        return "it is for one container"
    if fraction.mib and policy.compute == "same-as-memory":
        return f"policy {policy.name} limits it by the memory that is asked for"
    return None


def _problem_of_policy(policy: EffectivePolicy) -> str | None:
    """Return why nothing would hold a pod of the policy to it."""
    if policy.instance_mode is not None:
        return "MIG instances have their own"
    if policy.limits_from == "agent":
        return "the node's agent limits none"
    if policy.limiter.preload is None:
        return f"limiter {policy.limiter.name} of policy {policy.name} limits none"
    return None


def _most(fraction: Fraction, policy: EffectivePolicy) -> int:
    if policy.compute == "same-as-memory":
        return fraction.percent
    return policy.compute if isinstance(policy.compute, int) else 99


def _denied(rule: str) -> Denial:
    return Denial.of(Reason.COMPUTE, rule)
