"""What labels and annotations request: one of the policy's fractions or MiB, of GPUs of some kinds."""

from __future__ import annotations

from itertools import islice

import msgspec

from kube.names import GPUS_ANNOTATION
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds, KindProblem, read_gpu_kinds
from modes.memory_text import memory_mib, memory_rule
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import fraction_on_gpus, label_advice, memory_problem
from policies.model.pod_keys import misplaced_keys
from webhook.admission.denial import MESSAGE_LIMIT, Denial, Reason, cut_text
from webhook.admission.pod import LABEL, MEMORY_LABEL, ObjectMeta

MAX_SHOWN = 16
"""Characters of an annotation in a denial, which also needs room for the advice."""


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


def refuse_misplaced_keys(metadata: ObjectMeta) -> Denial | None:
    """Refuse our labels and annotations that would have no effect; name the first two if they fit."""
    misplaced = misplaced_keys(metadata.labels or (), metadata.annotations or ())
    lines = [f"{kind} {key} {rule}" for kind, key, rule in islice(misplaced, 2)]
    if not lines:
        return None
    both = "; ".join(lines)
    return Denial.of(Reason.KEY, both if len(both) <= MESSAGE_LIMIT else lines[0])


def wanted_share(
    metadata: ObjectMeta, asked: Asked, policy: EffectivePolicy
) -> tuple[Fraction, GpuKinds] | Denial:
    """Return the share, on each of the number of GPUs in the annotation, and the kinds of GPU."""
    fraction = read_label(asked, policy)
    if isinstance(fraction, Denial):
        return fraction
    annotations = metadata.annotations or {}
    gpus = annotations.get(GPUS_ANNOTATION)
    if gpus is not None:
        on_each = fraction_on_gpus(gpus, fraction, policy)
        if not isinstance(on_each, Fraction):
            shown = cut_text(gpus, MAX_SHOWN)
            return Denial.of(Reason.GPUS, f'{GPUS_ANNOTATION} "{shown}" is not allowed: {on_each}')
        fraction = on_each
    kinds = read_gpu_kinds(annotations) if annotations else EVERY_KIND
    if isinstance(kinds, KindProblem):
        shown = cut_text(kinds.text, MAX_SHOWN)
        return Denial.of(Reason.GPU_KIND, f'{kinds.annotation} "{shown}": {kinds.advice}')
    return fraction, kinds


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
