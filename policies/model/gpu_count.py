"""Checks the annotation for the number of GPUs, for the webhook and `check`."""

from __future__ import annotations

from modes.fraction import Fraction
from policies.model.effective import MAX_GPUS, EffectivePolicy

_COUNTS = {str(count): count for count in range(1, MAX_GPUS + 1)}
"""The annotation is compared as text, like the label."""


def fraction_on_gpus(text: str, fraction: Fraction, policy: EffectivePolicy) -> Fraction | str:
    """Return the label's fraction on the annotation's number of GPUs, or what to write instead."""
    count = _COUNTS.get(text)
    if count is None or count > policy.max_gpus:
        return f'use a whole number from "1" to "{policy.max_gpus}"'
    if count == 1:
        return fraction
    return _problem(fraction, policy) or fraction.on_each_of(count)


def _problem(fraction: Fraction, policy: EffectivePolicy) -> str | None:
    """Return why a share of several GPUs is impossible, and what to do; None if it is possible."""
    if fraction.is_whole:
        return "the label requests whole GPUs: set their number only in the label"
    if policy.limiter.image_pattern is not None:
        return f"limiter {policy.limiter.name} of policy {policy.name} limits one GPU: request a share of one"
    return policy.mode.several_gpus_problem
