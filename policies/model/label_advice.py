"""What to write instead of a label or a number of GPUs that a policy does not allow.

A label's text that is not in the policy's table is never used as a number.
"""

from __future__ import annotations

import re

from kube.names import FRACTION_LABEL
from modes.fraction import Fraction
from modes.memory_text import memory_text
from policies.model.effective import MAX_GPUS, EffectivePolicy

MAX_LABEL = 63
"""Characters of a label value that the API server accepts."""
_RATIO = re.compile(r"([0-9]{1,3})(?:/([1-9][0-9]?)|%)", re.ASCII)
MAX_SHOWN = 8
"""Texts of a table that a message lists."""
_COUNTS = {str(count): count for count in range(1, MAX_GPUS + 1)}
"""The annotation is compared as text, like the label."""


def label_advice(text: str, policy: EffectivePolicy) -> str | None:
    """Return what to write instead of a text that is not in the table; None if the table is empty."""
    if not policy.fractions:
        return None
    texts = list(policy.fractions)
    if len(texts) > MAX_SHOWN:
        texts = [*texts[: MAX_SHOWN - 2], "...", texts[-1]]
    allowed = f"use {', '.join(texts)}"
    meant = _same_amount(text, policy)
    return f'{allowed} (did you mean "{meant}"?)' if meant else allowed


def memory_problem(mib: int, policy: EffectivePolicy) -> str | None:
    """Return why pods of the policy may not request these MiB, and what to do; None if they may."""
    bounds = policy.memory
    if bounds is None:
        advice = f"use {FRACTION_LABEL} instead, or ask the admin" if policy.fractions else "ask the admin"
        return f"policy {policy.name} allows no memory amounts: {advice}"
    if bounds.min_mib <= mib <= (bounds.max_mib or mib):
        return None
    least = f"at least {memory_text(bounds.min_mib)}" if bounds.min_mib else ""
    most = f"at most {memory_text(bounds.max_mib)}" if bounds.max_mib else ""
    return f"policy {policy.name} allows {' and '.join(filter(None, (least, most)))}: use that"


def _same_amount(text: str, policy: EffectivePolicy) -> str | None:
    if len(text) > MAX_LABEL:
        return None
    try:
        amount = Fraction.rounded_up(_decimal(text), policy.slices_per_gpu)
    except ValueError:
        return None
    return next((known for known, fraction in policy.fractions.items() if fraction == amount), None)


def _decimal(text: str) -> str:
    """Return the decimal that people mean by another way to write it: "1/2", "50%", "0,5" or ".5"."""
    ratio = _RATIO.fullmatch(text)
    if ratio is not None:
        thousandths, rest = divmod(1000 * int(ratio[1]), int(ratio[2] or 100))
        return text if rest else f"{thousandths // 1000}.{thousandths % 1000:03}"
    text = text.replace(",", ".")
    return f"0{text}" if text.startswith(".") else text


def fraction_on_gpus(text: str, fraction: Fraction, policy: EffectivePolicy) -> Fraction | str:
    """Return the label's fraction on the annotation's number of GPUs, or what to write instead."""
    count = _COUNTS.get(text)
    if count is None or count > policy.max_gpus:
        return f'use a whole number from "1" to "{policy.max_gpus}"'
    if count == 1:
        return fraction
    return _problem_of_several(fraction, policy) or fraction.on_each_of(count)


def _problem_of_several(fraction: Fraction, policy: EffectivePolicy) -> str | None:
    """Return why a share of several GPUs is impossible, and what to do; None if it is possible."""
    if fraction.is_whole:
        return "the label requests whole GPUs: set their number only in the label"
    if policy.limiter.image_pattern is not None:
        return f"limiter {policy.limiter.name} of policy {policy.name} limits one GPU: request a share of one"
    return policy.mode.several_gpus_problem
