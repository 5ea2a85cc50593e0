"""Validates a labelled pod against its policy: all rules that need no GPU yet."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.mode import Mode
from policies.model.effective import NO_LIMITER, EffectiveLimiter, EffectivePolicy
from webhook.admission.affinity import demanded_hosts, demands_models, refuse_empty_affinity
from webhook.admission.annotations import INJECTED
from webhook.admission.claims import refuse_second_use
from webhook.admission.compute import asked_compute, refuse_compute
from webhook.admission.container_refs import ContainerRef, container_refs
from webhook.admission.containers import Containers, choose_containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import refuse_preload_from
from webhook.admission.exact_match import Json
from webhook.admission.existing_injection import NO_INJECTION, ExistingInjection
from webhook.admission.gpu_resources import check_amounts
from webhook.admission.instances import KnownCards, refuse_instances
from webhook.admission.label import Asked, asked_of, refuse_misplaced_keys, wanted_share
from webhook.admission.limiter import refuse_copy, refuse_mounts
from webhook.admission.pod import LABEL, ObjectMeta, Pod, PodSpec
from webhook.admission.quota_gate import refuse_gate
from webhook.admission.refusals import refuse_index, refuse_override_env, refuse_pod, refuse_privileged
from webhook.admission.reinvocation import kept_placement, may_be_assumed, sized_as_said, split_as_said
from webhook.admission.sizes import refuse_oversized


class Validated(msgspec.Struct, frozen=True, eq=False):
    """A labelled pod that passed all rules and needs only a GPU."""

    namespace: str
    metadata: ObjectMeta
    spec: PodSpec
    policy: EffectivePolicy
    mode: Mode
    fraction: Fraction
    limiter: EffectiveLimiter
    """The policy's; a limiter that does nothing for whole GPUs, which no other pod shares."""
    every: list[ContainerRef]
    containers: Containers
    kept: Placement | None
    """The pod's placement from an earlier review."""
    existing_injection: ExistingInjection
    kinds: GpuKinds
    """The kinds of GPU that the pod accepts."""

    @property
    def compute(self) -> str | None:
        """The pod's own limit of each GPU's compute in percent; None if the policy decides."""
        return asked_compute(self.metadata)

    @property
    def keeps_assumption(self) -> bool:
        """Whether only the policy's `assume` may confirm the pod's memory annotation."""
        kept = self.kept
        return kept is not None and may_be_assumed(self.metadata, self.spec, self.policy, self.fraction, kept)


def validate(
    pod: Pod,
    namespace: str,
    policy: EffectivePolicy,
    whole_object: Callable[[], Json | Denial],
    mig_cards: KnownCards,
) -> Validated | Denial:
    """Check a labelled pod against the policy (docs/reference/admission.md).

    `whole_object` decodes the pod with all its fields; it is called only if the pod is marked as injected.
    """
    metadata, spec = pod.metadata, pod.spec
    asked = asked_of(metadata)
    if metadata is None or asked is None or spec is None or not spec.containers:
        return Denial.of(Reason.UNREADABLE, f"a pod with the label {LABEL} needs spec.containers: add one")
    refused = refuse_oversized(metadata, spec) or refuse_misplaced_keys(metadata)
    existing = refused or _existing_injection(metadata, whole_object)
    if isinstance(existing, Denial):
        return existing
    wanted = wanted_share(metadata, asked, policy)
    if isinstance(wanted, Denial):
        return wanted
    fraction, kinds = wanted
    if fraction.mib and _says_injected(metadata):
        fraction = sized_as_said(fraction, metadata)
    mode = policy.mode
    limiter = NO_LIMITER if fraction.is_whole else policy.written_limiter
    every = container_refs(spec, mode)
    refused = refuse_pod(metadata, spec, every, limiter, policy) or refuse_empty_affinity(spec)
    refused = refused or refuse_gate(spec, policy)
    if refused is not None:
        return refused
    containers = choose_containers(metadata, every, policy, fraction)
    if isinstance(containers, Denial):
        return containers
    shared = _shared(pod, policy, fraction, containers)
    fraction, kept = _kept(pod, policy, shared, containers, kinds, mig_cards)
    validated = Validated(
        namespace, metadata, spec, policy, mode, fraction, limiter, every, containers, kept, existing, kinds
    )
    return _refuse_containers(validated, asked) or validated


def _shared(pod: Pod, policy: EffectivePolicy, fraction: Fraction, containers: Containers) -> Fraction:
    if not containers.parts:
        return fraction
    shared = fraction.shared_by([part.fraction for part in containers.parts])
    if policy.mode.is_claimed or not (shared.is_of_memory and _says_injected(pod.metadata)):
        return shared
    return split_as_said(shared, pod, policy)


def _kept(  # noqa: PLR0913, PLR0917 what a placement is compared with
    pod: Pod,
    policy: EffectivePolicy,
    fraction: Fraction,
    containers: Containers,
    kinds: GpuKinds,
    mig_cards: KnownCards,
) -> tuple[Fraction, Placement | None]:
    """Return the share at the placement of an earlier review, and that placement, if it is valid."""
    is_claimed = policy.mode.is_claimed
    if pod.spec is None or not _says_injected(pod.metadata):
        return fraction, None
    if not is_claimed and not demands_models(pod.spec, kinds):
        return fraction, None
    kept = kept_placement(pod, policy, fraction, containers, kinds, mig_cards)
    if is_claimed:
        return fraction, kept
    if kept is None or _are_too_small(kept, kinds):
        return fraction, None
    if kinds != EVERY_KIND and kept.instance is None:
        kept = msgspec.structs.replace(kept, hosts=demanded_hosts(pod.spec))
    return fraction.apart() if kept.containers else fraction, kept


def _are_too_small(kept: Placement, kinds: GpuKinds) -> bool:
    """Whether a pod is bound only to cards with less memory than it accepts."""
    values = kept.memory_values
    return bool(values) and all(int(value) < kinds.min_mib for value in values)


def _says_injected(metadata: ObjectMeta | None) -> bool:
    return metadata is not None and INJECTED in (metadata.annotations or ())


def _existing_injection(
    metadata: ObjectMeta, whole_object: Callable[[], Json | Denial]
) -> ExistingInjection | Denial:
    """Return fields that an earlier review may have written; decoding them costs more than all others."""
    if not _says_injected(metadata):
        return NO_INJECTION
    whole = whole_object()
    return whole if isinstance(whole, Denial) else ExistingInjection(whole)


def _refuse_containers(validated: Validated, asked: Asked) -> Denial | None:
    containers = validated.containers
    refused = refuse_copy(containers.gpu, validated.limiter, validated.existing_injection)
    refused = refused or refuse_privileged(containers, validated.policy) or refuse_instances(containers)
    refused = refused or refuse_compute(validated.metadata, validated.fraction, containers, validated.policy)
    if refused is None and validated.kept is None:
        refused = refuse_index(containers)
    for ref in containers.gpu:
        at = containers.place_of(ref)
        own, said = validated.fraction, str(asked)
        if at is not None:
            own, said = own.part(at), containers.parts[at].said
        refused = refused or check_amounts(ref, own, said)
        if validated.mode.is_claimed:
            refused = refused or refuse_second_use(ref)
        if validated.limiter.preload is not None:
            refused = refused or refuse_preload_from(ref)
    return (
        refused
        or refuse_override_env(containers.gpu, validated.limiter, validated.policy.allow)
        or refuse_mounts(containers.gpu, validated.limiter, validated.existing_injection)
    )
