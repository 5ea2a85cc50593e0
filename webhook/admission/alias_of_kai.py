"""Translates a pod in the syntax of KAI and Run:ai: annotations that request a share."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import CONTAINER_ANNOTATION, GPUS_ANNOTATION
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.alias_words import (
    MAX_CHARACTERS,
    Alias,
    System,
    denied,
    fraction_label,
    memory_label,
    rewritten,
    shown,
    words_of,
)
from webhook.admission.denial import Denial
from webhook.admission.other_systems import (
    KAI_AMOUNTS,
    KAI_CONTAINER,
    KAI_CONTAINERS,
    KAI_FRACTION,
    KAI_GPUS,
    KAI_LIMITS,
    KAI_MEMORY,
    KAI_MPS,
)
from webhook.admission.pod import MEMORY_LABEL, ObjectMeta, Pod, PodSpec

_REWRITTEN = (*KAI_AMOUNTS, KAI_GPUS, KAI_CONTAINER)


def _asks(metadata: ObjectMeta, _: PodSpec) -> bool:
    """Whether a pod requests a share in this syntax, or the limit of one, if only in the wrong place."""
    theirs = metadata.annotations or {}
    return _refuse_misplaced(metadata) is not None or not theirs.keys().isdisjoint(KAI_AMOUNTS)


def _read(metadata: ObjectMeta, spec: PodSpec, policy: EffectivePolicy) -> Alias | Denial:
    misplaced = _refuse_misplaced(metadata)
    if misplaced is not None:
        return misplaced
    theirs = metadata.annotations or {}
    fraction, mib = theirs.get(KAI_FRACTION), theirs.get(KAI_MEMORY)
    if fraction is not None and mib is not None:
        return denied(f"annotations {KAI_FRACTION} and {KAI_MEMORY} both set an amount: keep one")
    refused = _refuse_limits(theirs)
    if refused is not None:
        return refused
    if theirs.get(KAI_MPS) == "true":
        return denied(f"annotation {KAI_MPS} is not supported: remove it")
    if mib is not None:
        label = memory_label(KAI_MEMORY, mib)
    else:
        label = fraction_label(KAI_FRACTION, fraction or "", policy)
    if isinstance(label, Denial):
        return label
    ours = {GPUS_ANNOTATION: theirs.get(KAI_GPUS), CONTAINER_ANNOTATION: theirs.get(KAI_CONTAINER)}
    amount = f"{KAI_MEMORY} {mib}" if mib is not None else f"{KAI_FRACTION} {fraction}"
    present = [name for name in _REWRITTEN if name in theirs]
    changed, operations = rewritten(metadata, label, ours, present)
    return Alias(Pod(changed, spec), operations, words_of(amount, label))


def _refuse_misplaced(metadata: ObjectMeta) -> Denial | None:
    """Refuse amounts that would have no effect: labels, and annotations of single containers."""
    for name in KAI_AMOUNTS:
        if name in (metadata.labels or ()):
            return denied(f"label {name} has no effect: write it as an annotation")
    for name in metadata.annotations or ():
        if name.startswith(KAI_CONTAINERS):
            advice = f"use {KAI_MEMORY} or {KAI_FRACTION}, or the label {MEMORY_LABEL}"
            return denied(f"annotation {name} is not supported: {advice}")
    return None


def _refuse_limits(theirs: Mapping[str, str]) -> Denial | None:
    """Refuse a limit that differs from the share: Run:ai would let the pod grow up to it."""
    for name, limit in KAI_LIMITS.items():
        asked, most = theirs.get(name), theirs.get(limit)
        if most is None:
            continue
        if asked is None:
            return denied(f"{limit} needs {name}: set the amount there, since a share is its own limit")
        if not _are_same(asked, most):
            return denied(
                f"{limit} {shown(most)} is not {name} {shown(asked)}, but a share is its own limit:"
                f" request that amount in {name}, or remove the limit"
            )
    return None


def _are_same(asked: str, limit: str) -> bool:
    if max(len(asked), len(limit)) > MAX_CHARACTERS:
        return False
    one, other = Fraction.ratio_of_text(asked), Fraction.ratio_of_text(limit)
    return one is not None and other is not None and one[0] * other[1] == other[0] * one[1]


KAI = System(_asks, _read, (*KAI_AMOUNTS, KAI_CONTAINERS))
