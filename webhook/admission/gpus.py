"""Of how many GPUs a pod asks its share: the same part of each of several different ones of one node."""

from __future__ import annotations

from kube.names import GPUS_ANNOTATION
from modes.fraction import Fraction
from policies.model.effective import MAX_GPUS, EffectivePolicy
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

_COUNTS = {str(count): count for count in range(1, MAX_GPUS + 1)}
"""The annotation is matched as text, as the label is."""
MAX_SHOWN = 16
"""Characters of what was written that a denial repeats."""


def on_each_gpu(metadata: ObjectMeta, fraction: Fraction, policy: EffectivePolicy) -> Fraction | Denial:
    """Return the label's fraction on as many GPUs as the annotation says; one where the pod has none."""
    text = (metadata.annotations or {}).get(GPUS_ANNOTATION)
    if text is None:
        return fraction
    count = _COUNTS.get(text)
    if count is None or count > policy.max_gpus:
        return _denied(text, f'use a whole number from "1" to "{policy.max_gpus}"')
    if count == 1:
        return fraction
    problem = _problem(fraction, policy)
    return fraction.on_each_of(count) if problem is None else _denied(text, problem)


def _problem(fraction: Fraction, policy: EffectivePolicy) -> str | None:
    """Return why there can be no such shares of several GPUs, and what to do; None if there can."""
    if fraction.is_whole:
        return "the label asks for whole GPUs: write their number in the label alone"
    if policy.limiter.image_pattern is not None:
        return f"limiter {policy.limiter.name} of policy {policy.name} limits one GPU: ask for a share of one"
    return policy.mode.several_gpus_problem


def _denied(text: str, advice: str) -> Denial:
    shown = cut_text(text, MAX_SHOWN)
    return Denial.of(Reason.GPUS, f'{GPUS_ANNOTATION} "{shown}" is not allowed: {advice}')
