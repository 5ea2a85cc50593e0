"""Validates a labelled pod against its policy: all rules that need no GPU yet."""

from __future__ import annotations

from collections.abc import Callable

from policies.model.effective import NO_LIMITER, EffectivePolicy
from webhook.admission.affinity import refuse_empty_affinity
from webhook.admission.annotations import INJECTED
from webhook.admission.claims import refuse_second_use
from webhook.admission.compute import refuse_compute
from webhook.admission.container_refs import container_refs
from webhook.admission.containers import choose_containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import refuse_preload_from
from webhook.admission.exact_match import Json
from webhook.admission.existing_injection import NO_INJECTION, ExistingInjection
from webhook.admission.gpu_resources import check_amounts
from webhook.admission.instances import KnownCards, refuse_instances
from webhook.admission.kept_claim import has_claim
from webhook.admission.label import Asked, asked_of, refuse_misplaced_keys, wanted_share
from webhook.admission.limiter import refuse_copy, refuse_mounts
from webhook.admission.pod import LABEL, ObjectMeta, Pod
from webhook.admission.quota_gate import refuse_gate
from webhook.admission.refusals import refuse_index, refuse_override_env, refuse_pod, refuse_privileged
from webhook.admission.reinvocation import with_kept
from webhook.admission.sizes import refuse_oversized
from webhook.admission.validated import Validated


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
    if containers.parts:
        fraction = fraction.shared_by([part.fraction for part in containers.parts])
    validated = Validated(
        namespace, metadata, spec, policy, mode, fraction, limiter, every, containers, existing, kinds
    )
    validated = with_kept(validated, mig_cards)
    return _refuse_containers(validated, asked) or validated


def _existing_injection(
    metadata: ObjectMeta, whole_object: Callable[[], Json | Denial]
) -> ExistingInjection | Denial:
    """Return fields that an earlier review may have written; decoding them costs more than all others."""
    if INJECTED not in (metadata.annotations or ()):
        return NO_INJECTION
    whole = whole_object()
    return whole if isinstance(whole, Denial) else ExistingInjection(whole)


def _refuse_containers(validated: Validated, asked: Asked) -> Denial | None:
    containers = validated.containers
    refused = refuse_copy(containers.gpu, validated.limiter, validated.existing_injection)
    refused = refused or refuse_privileged(containers, validated.policy)
    refused = refused or refuse_instances(containers, has_claim=has_claim(validated))
    refused = refused or refuse_compute(validated.metadata, validated.fraction, containers, validated.policy)
    if refused is None and validated.kept is None:
        refused = refuse_index(containers)
    for ref in containers.gpu:
        at = containers.place_of(ref)
        own, said = validated.fraction, str(asked)
        if at is not None:
            own, said = own.part(at), containers.parts[at].said
        refused = refused or check_amounts(ref, own, said)
        refused = refused or refuse_second_use(ref)
        if validated.limiter.preload is not None:
            refused = refused or refuse_preload_from(ref)
    return (
        refused
        or refuse_override_env(containers.gpu, validated.limiter, validated.policy.allow)
        or refuse_mounts(containers.gpu, validated.limiter, validated.existing_injection)
    )
