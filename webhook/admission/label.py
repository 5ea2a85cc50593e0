"""The label is matched as text against the policy's table, never read as a number."""

from __future__ import annotations

from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import LABEL

LONGEST_LABEL = 63
"""Characters of a label value that the API server lets through."""


def read_label(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    """Look the label's text up in the table of the policy."""
    fraction = policy.fractions.get(text)
    if fraction is not None:
        return fraction
    return Denial.of(Reason.LABEL, f'{LABEL} "{text}" is not allowed: {_advice(text, policy)}')


def _advice(text: str, policy: EffectivePolicy) -> str:
    if not policy.fractions:
        return f"policy {policy.name} allows no fraction at all: ask the admin"
    allowed = f"use {_shortened(list(policy.fractions))}"
    if text in policy.left_out:
        return f"it is no whole number of slices (slicesPerGpu {policy.slices_per_gpu}): {allowed}"
    meant = _same_amount(text, policy)
    return f'{allowed} (did you mean "{meant}"?)' if meant else allowed


def _same_amount(text: str, policy: EffectivePolicy) -> str | None:
    if len(text) > LONGEST_LABEL:
        return None
    try:
        amount = Fraction.from_text(text, policy.slices_per_gpu)
    except ValueError:
        return None
    return next((known for known, fraction in policy.fractions.items() if fraction == amount), None)


def _shortened(texts: list[str], most: int = 8) -> str:
    if len(texts) > most:
        texts = [*texts[: most - 2], "...", texts[-1]]
    return ", ".join(texts)
