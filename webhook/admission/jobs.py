"""Jobs: removes `clear.ml/fraction-*` from the pod template, because the API server would reject the Job."""

from __future__ import annotations

from collections.abc import Collection

from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.container_choice import nameable
from webhook.admission.container_parts import container_parts
from webhook.admission.container_refs import ContainerRef, container_refs
from webhook.admission.denial import Denial, Reason
from webhook.admission.gpu_resources import check_clearml_fractions, take_out_clearml_fractions
from webhook.admission.json_patch import Operation
from webhook.admission.label import Asked, asked_of, refuse_misplaced_keys, wanted_share
from webhook.admission.pod import LABEL, MEMORY_LABEL, Job, ObjectMeta
from webhook.admission.sizes import bounded, refuse_oversized


def prepare_job(job: Job, policy: EffectivePolicy) -> bytes | Denial:
    """Return the patch that removes `clear.ml/fraction-*` from a labelled Job's template; it may be empty.

    The pods are injected later, one by one. A Job is denied here, where its author sees it, if its pods would
    be denied because of their label or size, or would not have the label.
    """
    template = job.spec.template if job.spec is not None else None
    if template is None or template.spec is None:
        return b""
    metadata = template.metadata or ObjectMeta()
    refused = refuse_oversized(metadata, template.spec)
    asked = asked_of(metadata)
    if refused is None and asked is None:
        labels = (job.metadata.labels if job.metadata is not None else None) or {}
        refused = label_not_on_template("Job", "spec.template", labels)
    refused = refused or refuse_misplaced_keys(metadata)
    if refused is not None or asked is None:
        return refused or b""
    wanted = wanted_share(metadata, asked, policy)
    if isinstance(wanted, Denial):
        return wanted
    every = container_refs(template.spec, policy.mode, "/spec/template/spec")
    operations = _without_fractions(metadata, every, wanted[0], asked, policy)
    return operations if isinstance(operations, Denial) else bounded(operations)


def _without_fractions(
    metadata: ObjectMeta, every: list[ContainerRef], fraction: Fraction, asked: Asked, policy: EffectivePolicy
) -> list[Operation] | Denial:
    """Remove `clear.ml/fraction-*` from all containers, or deny amounts that do not match the label."""
    parts = container_parts(metadata, nameable(every), fraction, policy.reserve_mib)
    if isinstance(parts, Denial):
        return parts
    said = {part.ref.path: (part.fraction, part.said) for part in parts}
    operations: list[Operation] = []
    for ref in every:
        denial = check_clearml_fractions(ref, *said.get(ref.path, (fraction, str(asked))))
        if denial is not None:
            return denial
        operations += take_out_clearml_fractions(ref)
    return operations


def label_not_on_template(kind: str, template: str, labels: Collection[str]) -> Denial:
    """Deny a workload with our label in `labels` but not in its pod template, whose path is `template`."""
    label = LABEL if LABEL in labels else MEMORY_LABEL
    return Denial.of(
        Reason.LABEL_NOT_ON_TEMPLATE,
        f"{label} is only on the {kind}, so its pods would get no share:"
        f" set it in {template}.metadata.labels too",
    )
