"""Translates a pod in the syntax of KAI and Run:ai: annotations that request a share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from math import ceil

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION, GPUS_ANNOTATION, NVIDIA_DOMAIN
from kube.quantity import parse_quantity
from modes.memory_text import MAX_MIB
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice
from webhook.admission.alias_words import (
    MAX_CHARACTERS,
    Alias,
    AliasError,
    Label,
    System,
    known_text,
    memory_label,
    misplaced_amount,
    rewritten,
    shown,
    words_of,
)
from webhook.admission.pod import LABEL, MEMORY_LABEL, ObjectMeta, Pod, PodSpec

KAI_FRACTION, KAI_MEMORY = "gpu-fraction", "gpu-memory"
KAI_GPUS, KAI_CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
KAI_LIMITS = {
    "gpu-fraction-limit": KAI_FRACTION,
    "gpu-memory-limit": KAI_MEMORY,
    "gpu-fraction.limit": KAI_FRACTION,
    "gpu-memory.limit": KAI_MEMORY,
}
"""From the limit up to which a pod may grow, as Run:ai and as KAI writes it, to the guaranteed amount."""
KAI_MPS, KAI_MIG = "mps", "mig-profile"
KAI_CONTAINERS = NVIDIA_DOMAIN + "container."
"""Prefix of annotations about one container, of KAI since 0.18 and of Run:ai since 3.0."""
KAI_EARLY = "nvidia.cdi.k8s.io/"
"""Prefix of the same before KAI's release 0.18, and of annotations that name devices (CDI)."""
KAI_AMOUNTS = (KAI_FRACTION, KAI_MEMORY, *KAI_LIMITS)
"""A pod with one of them requests a share."""
_FURTHER_OF_KAI = re.compile(
    r"nvidia\.com/(?:container\.|mig-)|kai\.scheduler/container\.|nvidia\.cdi\.k8s\.io/[^/]+\.gpu-memory\."
)
_REWRITTEN = (*KAI_AMOUNTS, KAI_GPUS, KAI_CONTAINER)
_REQUEST, _LIMIT, _MODE = ".gpu-memory.request", ".gpu-memory.limit", ".gpu-compute.mode"
_TIME_SLICING = "time-slicing"
_MIB = 2**20


def _asks(metadata: ObjectMeta, _: PodSpec) -> bool:
    """Whether a pod requests a share in this syntax, or only the limit of one."""
    theirs = metadata.annotations or {}
    return not theirs.keys().isdisjoint(KAI_AMOUNTS) or bool(further_of_kai(theirs))


def _read(metadata: ObjectMeta, spec: PodSpec, policy: EffectivePolicy) -> Alias:
    theirs = metadata.annotations or {}
    if theirs.get(KAI_MPS) == "true":
        raise AliasError(f"annotation {KAI_MPS} is not supported: remove it")
    container = _container(theirs, spec)
    _refuse_limits(theirs, container)
    amount, label = _amount(theirs, container, policy)
    ours = {GPUS_ANNOTATION: theirs.get(KAI_GPUS), CONTAINER_ANNOTATION: container}
    present = [*[name for name in _REWRITTEN if name in theirs], *further_of_kai(theirs)]
    changed, operations = rewritten(metadata, label, ours, present)
    return Alias(Pod(changed, spec), operations, words_of(amount, label))


def _container(theirs: Mapping[str, str], spec: PodSpec) -> str | None:
    """Return the container that the annotations are about; None if they do not say."""
    named = theirs.get(KAI_CONTAINER)
    sidecars = [each for each in spec.init_containers or () if each.is_native_sidecar]
    running = {each.name for each in (*(spec.containers or ()), *sidecars)}
    for annotation in further_of_kai(theirs):
        container, _, key = annotation.removeprefix(KAI_CONTAINERS).partition(".")
        if not annotation.startswith(KAI_CONTAINERS) or f".{key}" not in {_REQUEST, _LIMIT, _MODE}:
            raise AliasError(_unsupported(annotation))
        if f".{key}" == _MODE and theirs[annotation] != _TIME_SLICING:
            rule = f'is not supported: use "{_TIME_SLICING}", or remove it'
            raise AliasError(f"annotation {annotation} {shown(theirs[annotation])} {rule}")
        if container not in running:
            raise AliasError(f"annotation {annotation} names no container of the pod: use one of its names")
        if named not in {None, container}:
            advice = f"use only one of them, or use our label and {CONTAINERS_ANNOTATION}"
            raise AliasError(f"annotation {annotation} is not about container {shown(named or '')}: {advice}")
        named = container
    return named


def _unsupported(annotation: str) -> str:
    if annotation.startswith(KAI_EARLY):
        now = f'{KAI_CONTAINERS}{annotation.removeprefix(KAI_EARLY)}: "30Gi"'
        return f"annotation {annotation} is of KAI before 0.18: write it as in {now}"
    advice = (
        f"use {KAI_MEMORY}, or the label {MEMORY_LABEL}" if "/container." not in annotation else "remove it"
    )
    return f"annotation {annotation} is not supported: {advice}"


def _refuse_limits(theirs: Mapping[str, str], container: str | None) -> None:
    """Refuse a limit that differs from the share, up to which the other system would let the pod grow."""
    own = f"{KAI_CONTAINERS}{container}"
    for limit, name in {**KAI_LIMITS, own + _LIMIT: own + _REQUEST}.items():
        asked, most = theirs.get(name), theirs.get(limit)
        if most is None or (asked is None and limit not in KAI_LIMITS):
            continue
        if asked is None:
            raise AliasError(f"{limit} needs {name}: set the amount there, since a share is its own limit")
        if not _are_same(asked, most):
            raise AliasError(
                f"{limit} {shown(most)} is not {name} {shown(asked)}, but a share is its own limit:"
                " request that amount, or remove the limit"
            )


def _are_same(asked: str, limit: str) -> bool:
    one, other = _quantity(asked), _quantity(limit)
    # Memory without a unit is in MiB.
    return other in {one, one * _MIB}


def _quantity(text: str) -> Fraction:
    """Return the amount; 0 for a text that is none."""
    try:
        return parse_quantity(text)
    except ValueError:
        return Fraction(0)


def _amount(theirs: Mapping[str, str], container: str | None, policy: EffectivePolicy) -> tuple[str, Label]:
    """Return what the pod says of its amount, and our label for it."""
    own = f"{KAI_CONTAINERS}{container}"
    request = own + (_LIMIT if own + _REQUEST not in theirs and own + _LIMIT in theirs else _REQUEST)
    said = [name for name in (KAI_FRACTION, request, KAI_MEMORY) if name in theirs]
    if not said:
        raise AliasError(f"annotation {own}{_MODE} needs an amount: add {request}")
    labels = [_label(name, theirs[name], policy) for name in said]
    # KAI writes the amount of gpu-memory also as that of the container.
    if any(each != labels[0] for each in labels):
        raise AliasError(f"annotations {said[0]} and {said[-1]} both set an amount: keep one")
    return f"{said[0]} {theirs[said[0]]}", labels[0]


def _label(name: str, text: str, policy: EffectivePolicy) -> Label:
    if name == KAI_FRACTION:
        known = known_text(text, policy)
        if known is not None:
            return LABEL, known
        advice = label_advice(text[:MAX_CHARACTERS], policy)
        advice = advice or f"policy {policy.name} allows no fractions: ask the admin"
        raise AliasError(f"{name} {shown(text)} is not a fraction of policy {policy.name}: {advice}")
    if name == KAI_MEMORY:
        return memory_label(name, text)
    mib = _quantity(text) / _MIB
    if not 1 <= mib <= MAX_MIB:
        raise AliasError(f'{name} {shown(text)} is not an amount of memory: use a value such as "4Gi"')
    return memory_label(name, str(ceil(mib)))


def _misplaced(metadata: ObjectMeta) -> str | None:
    return misplaced_amount({"label": metadata.labels}, KAI_AMOUNTS, "as an annotation")


def further_of_kai(annotations: Collection[str]) -> list[str]:
    """Return KAI's annotations about one container or a MIG instance, which have a part of their own."""
    return sorted([name for name in annotations if _FURTHER_OF_KAI.match(name) or name == KAI_MIG])


KAI = System(_asks, _read, _misplaced)
