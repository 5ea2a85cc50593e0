"""First half of a decision: everything that can be said of a labelled pod before a GPU is chosen."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.mode import Mode
from policies.model.effective import EffectivePolicy, Limiter
from webhook.admission.affinity import refuse_empty_affinity
from webhook.admission.annotations import INJECTED
from webhook.admission.container_refs import Slot, slots
from webhook.admission.containers import Containers, choose_containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import refuse_preload_from
from webhook.admission.exact_match import Json
from webhook.admission.existing_injection import NOTHING_WRITTEN, Written
from webhook.admission.gpu_resources import check_amounts
from webhook.admission.label import read_label
from webhook.admission.limiter import refuse_mounts
from webhook.admission.pod import LABEL, ObjectMeta, Pod, PodSpec, label_of
from webhook.admission.refusals import refuse_index, refuse_override_env, refuse_pod, refuse_privileged
from webhook.admission.reinvocation import kept_placement
from webhook.admission.sizes import refuse_oversized

NO_LIMITER = Limiter("none")


class Plan(msgspec.Struct, frozen=True, eq=False):
    """A labelled pod that may have its share, once a GPU is chosen."""

    namespace: str
    metadata: ObjectMeta
    spec: PodSpec
    policy: EffectivePolicy
    mode: Mode
    fraction: Fraction
    limiter: Limiter
    """The policy's; one that does nothing for whole GPUs, which have no neighbour to protect."""
    every: list[Slot]
    containers: Containers
    kept: Placement | None
    """The placement that the pod already carries from an earlier review."""
    written: Written

    @property
    def keeps_assumption(self) -> bool:
        """Whether only the policy's `assume` vouches for the memory that the pod says it was given."""
        return self.kept is not None and not self.kept.memory_values and not self.fraction.is_whole


def make_plan(
    pod: Pod, namespace: str, policy: EffectivePolicy, whole_object: Callable[[], Json | Denial]
) -> Plan | Denial:
    """Check a labelled pod against the policy (design: the admission table, in its order).

    `whole_object` decodes the pod with all its fields; called only where it says that it was injected before.
    """
    metadata, spec = pod.metadata, pod.spec
    text = label_of(metadata)
    if metadata is None or text is None or spec is None or not spec.containers:
        return Denial.of(Reason.UNREADABLE, f"a pod labelled {LABEL} needs spec.containers: give it one")
    written = refuse_oversized(metadata, spec) or _written(metadata, whole_object)
    if isinstance(written, Denial):
        return written
    fraction = read_label(text, policy)
    if isinstance(fraction, Denial):
        return fraction
    mode = policy.mode
    limiter = NO_LIMITER if fraction.is_whole else policy.limiter
    every = slots(spec, mode)
    refused = refuse_pod(metadata, spec, every, limiter, policy.allow) or refuse_empty_affinity(spec)
    if refused is not None:
        return refused
    containers = choose_containers(metadata, every, policy)
    if isinstance(containers, Denial):
        return containers
    kept = None
    if INJECTED in (metadata.annotations or ()):
        kept = kept_placement(pod, policy, fraction, containers, mode)
    plan = Plan(namespace, metadata, spec, policy, mode, fraction, limiter, every, containers, kept, written)
    return _refuse_containers(plan, text) or plan


def _written(metadata: ObjectMeta, whole_object: Callable[[], Json | Denial]) -> Written | Denial:
    """Return what an earlier review may have written; decoding it costs more than all that the rules read."""
    if INJECTED not in (metadata.annotations or ()):
        return NOTHING_WRITTEN
    whole = whole_object()
    return whole if isinstance(whole, Denial) else Written(whole)


def _refuse_containers(plan: Plan, text: str) -> Denial | None:
    containers = plan.containers
    refused = refuse_privileged(containers, plan.policy)
    if refused is None and plan.kept is None:
        refused = refuse_index(containers)
    for slot in containers.gpu:
        refused = refused or check_amounts(slot, plan.fraction, text)
        if plan.limiter.preload is not None:
            refused = refused or refuse_preload_from(slot.container)
    return (
        refused
        or refuse_override_env(containers.gpu, plan.limiter, plan.policy.allow)
        or refuse_mounts(containers.gpu, plan.limiter, plan.written)
    )
