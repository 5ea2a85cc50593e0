"""The label is matched as text against the policy's table, never read as a number."""

from __future__ import annotations

from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import LABEL


def read_label(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    """Return what the label's text means in the table of the policy, or deny it with what to write."""
    fraction = policy.fractions.get(text)
    if fraction is not None:
        return fraction
    advice = label_advice(text, policy) or f"policy {policy.name} allows no fraction at all: ask the admin"
    return Denial.of(Reason.LABEL, f'{LABEL} "{text}" is not allowed: {advice}')
