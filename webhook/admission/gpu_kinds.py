"""The annotations that narrow the kinds of GPU: patterns of the model, and the least memory of a card."""

from __future__ import annotations

import re

from kube.names import GPU_MODEL_ANNOTATION, MIN_GPU_MEMORY_ANNOTATION
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.memory_text import EXAMPLES, memory_mib
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_PATTERNS = 8
MAX_TEXT = 256
"""Characters of all patterns together."""
MAX_SHOWN = 16
"""Characters of an annotation that a denial repeats: what to do needs the room."""
_PATTERN = re.compile(r"[A-Za-z0-9*](?:[-A-Za-z0-9*_.]{0,61}[A-Za-z0-9*])?", re.ASCII)
_EXAMPLE = 'such as "A100-80,H100*"'


def gpu_kinds(metadata: ObjectMeta) -> GpuKinds | Denial:
    """Return the kinds of GPU that the annotations let a pod have, or deny a text that says none."""
    annotations = metadata.annotations
    if not annotations:
        return EVERY_KIND
    models, memory = annotations.get(GPU_MODEL_ANNOTATION), annotations.get(MIN_GPU_MEMORY_ANNOTATION)
    if models is None and memory is None:
        return EVERY_KIND
    patterns = _patterns(models) if models is not None else ()
    if isinstance(patterns, Denial):
        return patterns
    mib = memory_mib(memory) if memory is not None else 0
    if mib is None:
        return _denied(MIN_GPU_MEMORY_ANNOTATION, memory or "", f"write whole Mi or Gi such as {EXAMPLES}")
    return GpuKinds(patterns, mib)


def _patterns(text: str) -> tuple[str, ...] | Denial:
    if len(text) > MAX_TEXT:
        return _denied(GPU_MODEL_ANNOTATION, text, f"write at most {MAX_TEXT} characters")
    patterns = tuple(part.strip() for part in text.split(","))
    if len(patterns) > MAX_PATTERNS or not all(map(_PATTERN.fullmatch, patterns)):
        rule = f"write 1 to {MAX_PATTERNS} models, * for any part of a word, with commas between"
        return _denied(GPU_MODEL_ANNOTATION, text, f"{rule}, {_EXAMPLE}")
    return patterns


def _denied(annotation: str, text: str, advice: str) -> Denial:
    return Denial.of(Reason.GPU_KIND, f'{annotation} "{cut_text(text, MAX_SHOWN)}": {advice}')
