"""The annotation that limits a pod's compute: never above the policy's limit."""

from __future__ import annotations

import re

from kube.names import COMPUTE_ANNOTATION
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.containers import Containers
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_SHOWN = 16
"""Maximum characters of the value in a denial."""
_PERCENT = re.compile(r"[1-9][0-9]?", re.ASCII)


def asked_compute(metadata: ObjectMeta) -> str | None:
    """Return the annotation's percentage of each GPU's compute; None without the annotation."""
    return (metadata.annotations or {}).get(COMPUTE_ANNOTATION)


def refuse_compute(
    metadata: ObjectMeta, fraction: Fraction, containers: Containers, policy: EffectivePolicy
) -> Denial | None:
    """Deny an annotation that has no effect, or that is above the policy's limit."""
    text = asked_compute(metadata)
    if text is None:
        return None
    said = f'annotation {COMPUTE_ANNOTATION} "{cut_text(text, MAX_SHOWN)}"'
    if _PERCENT.fullmatch(text) is None:
        return _denied(f"{said} is not a whole number from 1 to 99: set the percentage of a GPU's compute")
    problem = _problem(fraction, containers, policy)
    if problem is not None:
        return _denied(f"{said} has no effect, because {problem}: remove it")
    most = _most(fraction, policy)
    if int(text) <= most:
        return None
    return _denied(f"{said} is above the {most} of policy {policy.name}: use a lower value, or remove it")


def _problem(fraction: Fraction, containers: Containers, policy: EffectivePolicy) -> str | None:
    """Return why nothing would limit the pod's compute to the annotation; None if something does."""
    problems = (
        (fraction.is_whole, "whole GPUs are not limited"),
        (containers.parts, "several containers share the GPU"),
        (
            fraction.is_of_memory and policy.compute == "same-as-memory",
            f"policy {policy.name} limits compute by memory",
        ),
        (policy.instance_mode is not None, "MIG instances have their own compute"),
        (policy.limits_from == "agent", "the node's agent does not limit compute"),
        (
            policy.limiter.preload is None,
            f"limiter {policy.limiter.name} of policy {policy.name} does not limit compute",
        ),
    )
    return next((text for is_so, text in problems if is_so), None)


def _most(fraction: Fraction, policy: EffectivePolicy) -> int:
    if policy.compute == "same-as-memory":
        return fraction.percent
    return policy.compute if isinstance(policy.compute, int) else 99


def _denied(rule: str) -> Denial:
    return Denial.of(Reason.COMPUTE, rule)
