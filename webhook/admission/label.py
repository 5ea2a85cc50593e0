"""The labels that request a share: one of the policy's fractions, or an amount of memory."""

from __future__ import annotations

import msgspec

from modes.fraction import Fraction
from modes.memory_text import memory_mib, memory_rule
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice, memory_problem
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import LABEL, MEMORY_LABEL, ObjectMeta


class Asked(msgspec.Struct, frozen=True, gc=False):
    """Values of the labels that request a share; at least one is present."""

    fraction: str | None
    memory: str | None

    def __str__(self) -> str:
        """Return the label for a denial."""
        if self.fraction is not None:
            return f'{LABEL} "{self.fraction}"'
        return f'{MEMORY_LABEL} "{self.memory}"'


def asked_of(metadata: ObjectMeta | None) -> Asked | None:
    """Return the request in the object's labels; None if it has neither label."""
    labels = metadata.labels if metadata is not None else None
    if not labels:
        return None
    fraction, memory = labels.get(LABEL), labels.get(MEMORY_LABEL)
    return None if fraction is None and memory is None else Asked(fraction, memory)


def read_label(asked: Asked, policy: EffectivePolicy) -> Fraction | Denial:
    """Return the label's share under the policy, or a denial with the allowed values."""
    if asked.memory is None:
        return _read_fraction(asked.fraction or "", policy)
    if asked.fraction is None:
        return _read_memory(asked.memory, policy)
    why = "both request a share: keep one of the labels"
    return Denial.of(Reason.LABEL, f"{LABEL} and {MEMORY_LABEL} {why}")


def _read_fraction(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    fraction = policy.fractions.get(text)
    if fraction is not None:
        return fraction
    advice = label_advice(text, policy) or f"policy {policy.name} allows no fractions: ask the admin"
    return Denial.of(Reason.LABEL, f'{LABEL} "{text}" is not allowed: {advice}')


def _read_memory(text: str, policy: EffectivePolicy) -> Fraction | Denial:
    decimal = policy.memory is not None and policy.memory.decimal
    mib = memory_mib(text, decimal=decimal)
    if mib is None:
        return Denial.of(Reason.LABEL, f'{MEMORY_LABEL} "{text}" {memory_rule(text, decimal=decimal)}')
    problem = memory_problem(mib, policy)
    if problem is not None:
        return Denial.of(Reason.LABEL, f'{MEMORY_LABEL} "{text}" is not allowed: {problem}')
    return Fraction.of_memory(mib + policy.reserve_mib, policy.slices_per_gpu)
