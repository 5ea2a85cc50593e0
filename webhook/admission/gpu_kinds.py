"""The annotations that limit the kinds of GPU: patterns of the model, and the least memory of a card."""

from __future__ import annotations

from modes.gpu_kinds import EVERY_KIND, GpuKinds, KindProblem, read_gpu_kinds
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_SHOWN = 16
"""Maximum characters of an annotation in a denial, which also needs room for the advice."""


def gpu_kinds(metadata: ObjectMeta) -> GpuKinds | Denial:
    """Return the kinds of GPU that the annotations allow, or deny an invalid annotation."""
    if not metadata.annotations:
        return EVERY_KIND
    found = read_gpu_kinds(metadata.annotations)
    if not isinstance(found, KindProblem):
        return found
    shown = cut_text(found.text, MAX_SHOWN)
    return Denial.of(Reason.GPU_KIND, f'{found.annotation} "{shown}": {found.advice}')
