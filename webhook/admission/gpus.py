"""The annotation for several GPUs: the same share of each of several GPUs of one node."""

from __future__ import annotations

from kube.names import GPUS_ANNOTATION
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from policies.model.gpu_count import fraction_on_gpus
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta

MAX_SHOWN = 16
"""Maximum characters of the value in a denial."""


def on_each_gpu(metadata: ObjectMeta, fraction: Fraction, policy: EffectivePolicy) -> Fraction | Denial:
    """Return the label's fraction on the number of GPUs in the annotation; on one GPU without it."""
    text = (metadata.annotations or {}).get(GPUS_ANNOTATION)
    if text is None:
        return fraction
    asked = fraction_on_gpus(text, fraction, policy)
    if isinstance(asked, Fraction):
        return asked
    shown = cut_text(text, MAX_SHOWN)
    return Denial.of(Reason.GPUS, f'{GPUS_ANNOTATION} "{shown}" is not allowed: {asked}')
