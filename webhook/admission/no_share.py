"""Labelled pods of queues or policies without shares, such as ClearML's pipeline controllers."""

from __future__ import annotations

from kube.names import ASKING_LABELS, NO_SHARE_ANNOTATION
from policies.model.effective import EffectivePolicy
from webhook.admission.container_refs import container_refs
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import clear_env
from webhook.admission.gpu_resources import replace_amounts
from webhook.admission.json_patch import merge, pointer, remove
from webhook.admission.pod import LABEL, Pod
from webhook.admission.sizes import bounded, refuse_oversized


def without_share(pod: Pod, policy: EffectivePolicy) -> bytes | Denial:
    """Return the patch that removes label and GPUs from a pod, hides all GPUs from it, and records this.

    Resources of other GPU sharing systems stay, as in any pod without the label.
    """
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None or not spec.containers:
        return Denial.of(Reason.UNREADABLE, f"a pod with the label {LABEL} needs spec.containers: add one")
    oversized = refuse_oversized(metadata, spec)
    if oversized is not None:
        return oversized
    labels = metadata.labels or {}
    said = {NO_SHARE_ANNOTATION: policy.queue or policy.name}
    operations = [remove(f"/metadata/labels{pointer(name)}") for name in ASKING_LABELS if name in labels]
    operations += merge("/metadata/annotations", metadata.annotations, said)
    for ref in container_refs(spec, policy.mode):
        operations += replace_amounts(ref, {})
        operations += clear_env(ref, hides_gpus=policy.hide_gpus_from_others)
    return bounded(operations)
