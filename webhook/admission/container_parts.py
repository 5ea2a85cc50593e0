"""The annotation that divides a pod's share between several containers."""

from __future__ import annotations

import re

import msgspec

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION, GPUS_ANNOTATION, MAX_LABEL_VALUE
from modes.fraction import MAX_CONTAINERS, Fraction
from modes.memory_text import memory_mib
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import LABEL, MEMORY_LABEL, ObjectMeta

_MAX_AMOUNT = 12
MAX_SHOWN = 24
"""Maximum characters of a container's name or of an entry in a denial."""
MAX_LABEL_VALUED = 3
"""Maximum containers of the pod in a denial."""
_NAME = rf"[a-z0-9](?:[-a-z0-9]{{0,{MAX_LABEL_VALUE - 2}}}[a-z0-9])?"
_PART = re.compile(rf"({_NAME})=([0-9.]{{1,{_MAX_AMOUNT}}}(?:Mi|Gi)?)", re.ASCII)
_OF_FRACTION = 'use a value such as "train=0.500,eval=0.250"'
_OF_MEMORY = 'use a value such as "train=4Gi,eval=2Gi"'


class ContainerPart(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One container's part of the pod's share."""

    ref: ContainerRef
    text: str
    """Its amount, as in the annotation."""
    fraction: Fraction
    """If it is in MiB, only `on_card` gives its slices."""

    @property
    def said(self) -> str:
        """Return the parts as a denial names them."""
        return f'{CONTAINERS_ANNOTATION} "{cut_text(self.ref.container.name, MAX_SHOWN)}={self.text}"'


def container_parts(
    metadata: ObjectMeta, regular: list[ContainerRef], whole: Fraction, reserve_mib: int
) -> list[ContainerPart] | Denial:
    """Return the parts of containers in the order of the annotation; none without the annotation.

    They must add up to the label's share, `whole`: in slices, or in MiB, where each part includes the
    reserve.
    """
    annotations = metadata.annotations or {}
    text = annotations.get(CONTAINERS_ANNOTATION)
    if text is None:
        return []
    other = next((name for name in (CONTAINER_ANNOTATION, GPUS_ANNOTATION) if name in annotations), None)
    if other is not None:
        return refuse_parts(f"cannot be combined with {other}: remove one of the two")
    if whole.is_whole:
        return refuse_parts(f"cannot divide whole GPUs: remove it, or use a part of one GPU in {LABEL}")
    found = _read(text, {ref.container.name: ref for ref in regular}, whole, reserve_mib)
    return found if isinstance(found, Denial) else _disagreement(found, whole, reserve_mib) or found


def _disagreement(parts: list[ContainerPart], whole: Fraction, reserve_mib: int) -> Denial | None:
    if whole.is_of_memory:
        found, asked = (
            sum([part.fraction.asked_mib(reserve_mib) for part in parts]),
            whole.asked_mib(reserve_mib),
        )
        comes_to, label = f"{found}Mi", f"{MEMORY_LABEL} is {asked}Mi"
    else:
        found, asked = sum([part.fraction.slices for part in parts]), whole.slices
        comes_to, label = f"{found} of {whole.slices_per_gpu} slices", f"{LABEL} is {asked}"
    return None if found == asked else refuse_parts(f"adds up to {comes_to}, but {label}: make them equal")


def _read(
    text: str, by_name: dict[str, ContainerRef], whole: Fraction, reserve_mib: int
) -> list[ContainerPart] | Denial:
    what, example = ("memory", _OF_MEMORY) if whole.is_of_memory else ("fraction", _OF_FRACTION)
    if text.count(",") >= MAX_CONTAINERS:
        return refuse_parts(f"can list up to {MAX_CONTAINERS} containers, each with its {what}: {example}")
    parts: dict[str, ContainerPart] = {}
    for entry in text.split(","):
        match = _PART.fullmatch(entry)
        if match is None:
            return refuse_parts(
                f'has no container with its {what} in "{cut_text(entry, MAX_SHOWN)}": {example}'
            )
        name, written = match.groups()
        if name not in by_name:
            return Denial.of(
                Reason.CONTAINER_UNKNOWN,
                f"annotation {CONTAINERS_ANNOTATION}: the pod has no container"
                f' "{cut_text(name, MAX_SHOWN)}": use {_names(by_name)}',
            )
        if name in parts:
            return refuse_parts(f'lists "{cut_text(name, MAX_SHOWN)}" twice: give it one {what}')
        amount = _amount(written, whole, reserve_mib)
        if isinstance(amount, str):
            return refuse_parts(f'has "{cut_text(entry, MAX_SHOWN)}", which {amount}: fix it')
        parts[name] = ContainerPart(by_name[name], written, amount)
    return list(parts.values())


def _amount(text: str, whole: Fraction, reserve_mib: int) -> Fraction | str:
    """Return a container's slices, or its MiB with the policy's reserve; or why the text is invalid."""
    if whole.is_of_memory:
        mib = memory_mib(text)
        if mib is None:
            return "is not a whole number of Mi or Gi"
        return Fraction.of_memory(mib + reserve_mib, whole.slices_per_gpu)
    try:
        return Fraction.from_text(text, whole.slices_per_gpu)
    except ValueError:
        return f"is not a whole number of slices of {whole.slices_per_gpu}"


def _names(by_name: dict[str, ContainerRef]) -> str:
    names = [cut_text(name, MAX_SHOWN) for name in by_name]
    return ", ".join(names if len(names) <= MAX_LABEL_VALUED else [*names[:MAX_LABEL_VALUED], "..."])


def refuse_parts(rule: str) -> Denial:
    """Deny the annotation of parts, which the policy does not allow."""
    return Denial.of(Reason.CONTAINERS, f"annotation {CONTAINERS_ANNOTATION} {rule}")
