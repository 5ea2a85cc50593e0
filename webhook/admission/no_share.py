"""Labelled pods of queues or policies that give no share, such as ClearML's pipeline controllers."""

from __future__ import annotations

from kube.names import ASKING_LABELS, NO_SHARE_ANNOTATION
from policies.model.effective import EffectivePolicy
from webhook.admission.container_refs import container_refs
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import hide_gpus
from webhook.admission.gpu_resources import take_out_amounts
from webhook.admission.json_patch import merge, pointer, remove
from webhook.admission.pod import LABEL, Pod
from webhook.admission.sizes import bounded, refuse_oversized


def without_share(pod: Pod, policy: EffectivePolicy) -> bytes | Denial:
    """Return the patch that takes label and GPUs out of a pod, hides all GPUs from it, and says so.

    What another system shares is left in: the pod is as any that its author could write without the label.
    """
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None or not spec.containers:
        return Denial.of(Reason.UNREADABLE, f"a pod labelled {LABEL} needs spec.containers: give it one")
    oversized = refuse_oversized(metadata, spec)
    if oversized is not None:
        return oversized
    labels = metadata.labels or {}
    said = {NO_SHARE_ANNOTATION: policy.queue or policy.name}
    operations = [remove(f"/metadata/labels{pointer(name)}") for name in ASKING_LABELS if name in labels]
    operations += merge("/metadata/annotations", metadata.annotations, said)
    for ref in container_refs(spec, policy.mode):
        operations += take_out_amounts(ref)
        operations += hide_gpus(ref) if policy.hide_gpus_from_others else []
    return bounded(operations)
