"""How several containers of one pod share its part of a GPU, as an annotation says it."""

from __future__ import annotations

import re

import msgspec

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION, GPUS_ANNOTATION
from modes.fraction import Fraction
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import LABEL, ObjectMeta

MAX_CONTAINERS = 16
_MAX_NAME = 63
_MAX_FRACTION = 12
MAX_TEXT = MAX_CONTAINERS * (_MAX_NAME + _MAX_FRACTION + 2)
"""Characters of the annotation that are read."""
MAX_SHOWN = 24
"""Characters of a container's name, or of what was written, that a denial repeats."""
MAX_NAMED = 3
"""Containers of the pod that a denial names."""
_NAME = rf"[a-z0-9](?:[-a-z0-9]{{0,{_MAX_NAME - 2}}}[a-z0-9])?"
_PART = re.compile(rf"({_NAME})=([0-9.]{{1,{_MAX_FRACTION}}})", re.ASCII)
_EXAMPLE = 'write such as "train=0.500,eval=0.250"'


class ContainerPart(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What one container gets of the pod's GPU."""

    ref: ContainerRef
    text: str
    """Its fraction as the annotation has it."""
    fraction: Fraction

    @property
    def said(self) -> str:
        """How a denial names it."""
        return f'{CONTAINERS_ANNOTATION} "{_shortened(self.ref.container.name)}={self.text}"'


def container_parts(
    metadata: ObjectMeta, regular: list[ContainerRef], whole: Fraction
) -> list[ContainerPart] | Denial:
    """Return the parts that the annotation gives to containers, in its order; none without the annotation.

    They must come to what the label asks for, `whole`, by slices.
    """
    annotations = metadata.annotations or {}
    text = annotations.get(CONTAINERS_ANNOTATION)
    if text is None:
        return []
    other = next((name for name in (CONTAINER_ANNOTATION, GPUS_ANNOTATION) if name in annotations), None)
    if other is not None:
        return _denied(f"stands beside {other}: leave one of the two out")
    if whole.is_whole or whole.mib:
        return _denied(f"is for a part of one GPU by the label {LABEL}: leave it out")
    found = _read(text, {ref.container.name: ref for ref in regular}, whole.slices_per_gpu)
    if isinstance(found, Denial):
        return found
    slices = sum([part.fraction.slices for part in found])
    if slices == whole.slices:
        return found
    return _denied(
        f"comes to {slices} of {whole.slices_per_gpu} slices, and {LABEL} to {whole.slices}: make them agree"
    )


def _read(text: str, by_name: dict[str, ContainerRef], slices_per_gpu: int) -> list[ContainerPart] | Denial:
    if len(text) > MAX_TEXT or text.count(",") >= MAX_CONTAINERS:
        return _denied(f"is for up to {MAX_CONTAINERS} containers, each with its fraction: {_EXAMPLE}")
    parts: dict[str, ContainerPart] = {}
    for entry in text.split(","):
        match = _PART.fullmatch(entry)
        if match is None:
            return _denied(f'"{_shortened(entry)}" is no container with its fraction: {_EXAMPLE}')
        name, written = match.groups()
        if name not in by_name:
            return Denial.of(
                Reason.CONTAINER_UNKNOWN,
                f'annotation {CONTAINERS_ANNOTATION}: "{_shortened(name)}" is no container of this pod:'
                f" use {_names(by_name)}",
            )
        if name in parts:
            return _denied(f'names "{_shortened(name)}" twice: give it one fraction')
        try:
            fraction = Fraction.from_text(written, slices_per_gpu)
        except ValueError:
            return _denied(f'"{_shortened(entry)}" is no whole number of slices of {slices_per_gpu}: mend it')
        parts[name] = ContainerPart(by_name[name], written, fraction)
    return list(parts.values())


def _names(by_name: dict[str, ContainerRef]) -> str:
    names = [_shortened(name) for name in by_name]
    return ", ".join(names if len(names) <= MAX_NAMED else [*names[:MAX_NAMED], "..."])


def _denied(rule: str) -> Denial:
    return Denial.of(Reason.CONTAINERS, f"annotation {CONTAINERS_ANNOTATION} {rule}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
