"""The annotations that narrow the kinds of GPU: patterns of the model, and the least memory of a card."""

from __future__ import annotations

from modes.gpu_kinds import EVERY_KIND, GpuKinds, KindProblem, read_gpu_kinds
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_SHOWN = 16
"""Characters of an annotation that a denial repeats: what to do needs the room."""


def gpu_kinds(metadata: ObjectMeta) -> GpuKinds | Denial:
    """Return the kinds of GPU that the annotations let a pod have, or deny a text that says none."""
    if not metadata.annotations:
        return EVERY_KIND
    found = read_gpu_kinds(metadata.annotations)
    if not isinstance(found, KindProblem):
        return found
    shown = cut_text(found.text, MAX_SHOWN)
    return Denial.of(Reason.GPU_KIND, f'{found.annotation} "{shown}": {found.advice}')
