"""The labels: a fraction is matched as text against the policy's table, memory is whole Mi or Gi."""

from __future__ import annotations

from modes.fraction import Fraction
from modes.memory_text import EXAMPLES, memory_mib
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice, memory_problem
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import LABEL, MEMORY_LABEL, Asked


def read_label(asked: Asked, policy: EffectivePolicy) -> Fraction | Denial:
    """Return what the label's text means under the policy, or deny it with what to write."""
    if asked.memory is None:
        return _read_fraction(asked.fraction or "", policy)
    if asked.fraction is None:
        return _read_memory(asked.memory, policy)
    why = "are two ways to ask for a share: keep one of the labels"
    return Denial.of(Reason.LABEL, f"{LABEL} and {MEMORY_LABEL} {why}")


def _read_fraction(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    fraction = policy.fractions.get(text)
    if fraction is not None:
        return fraction
    advice = label_advice(text, policy) or f"policy {policy.name} allows no fraction at all: ask the admin"
    return Denial.of(Reason.LABEL, f'{LABEL} "{text}" is not allowed: {advice}')


def _read_memory(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    mib = memory_mib(text)
    if mib is None:
        why = f"is no whole number of Mi or Gi: write it such as {EXAMPLES}"
        return Denial.of(Reason.LABEL, f'{MEMORY_LABEL} "{text}" {why}')
    problem = memory_problem(mib, policy)
    if problem is not None:
        return Denial.of(Reason.LABEL, f'{MEMORY_LABEL} "{text}" is not allowed: {problem}')
    return Fraction.of_memory(mib + policy.reserve_mib, policy.slices_per_gpu)
