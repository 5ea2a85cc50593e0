"""The pure part of a review: who decides an object, and all rules of a pod in order.

A labelled pod is validated; its placement is requested; then it is mutated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec

from kube.names import ASKING_LABELS
from ledger.placement_request import Accounting, Placement
from policies.loading.policy_set import PolicySet
from policies.loading.reload import NoPoliciesError
from policies.model.effective import EffectivePolicy
from webhook.admission.alias_words import Alias
from webhook.admission.aliases import asks_in_other_words, read_alias
from webhook.admission.denial import Denial, Reason
from webhook.admission.instances import KnownCards
from webhook.admission.jobs import prepare_job
from webhook.admission.json_patch import joined
from webhook.admission.kept_claim import has_claim
from webhook.admission.label import asked_of
from webhook.admission.limiter import refuse_copy_from_elsewhere
from webhook.admission.mutate import Injection, mutate
from webhook.admission.no_share import without_share
from webhook.admission.placement_request import placement_request
from webhook.admission.pod import Job, ObjectMeta, Pod
from webhook.admission.refusals import refuse_index
from webhook.admission.reinvocation import keeps_assumption
from webhook.admission.validate import validate
from webhook.admission.validated import Validated
from webhook.admission_request import Request
from webhook.decision import Outcome, Pending
from webhook.pod_change import refuse_change
from webhook.policy_resolver import ResolvedPolicy, resolve_policy


class Rules:
    """Decides every object up to its placement."""

    def __init__(
        self,
        may_have: Callable[[Collection[str]], bool] = lambda _values: True,
        mig_cards: KnownCards = dict,
    ) -> None:
        """`may_have` says whether any node may have GPUs of one of these values of the memory label."""
        self._may_have = may_have
        self._mig_cards = mig_cards

    def decide(self, request: Request, policies: Callable[[], PolicySet]) -> Outcome | Pending:
        """Return the outcome, or the placement request on which it depends.

        Raises:
            NoPoliciesError: there are no policies, and the object needs one.
        """
        found = request.object
        if request.operation != "CREATE" or request.sub_resource:
            return _change(request)
        if isinstance(found, Denial):
            return Outcome.of(found, None)
        metadata = (found.metadata if found is not None else None) or ObjectMeta()
        labels = metadata.labels or {}
        is_labelled = not labels.keys().isdisjoint(ASKING_LABELS)
        if isinstance(found, Pod) and request.resource == "pods":
            decide_pod = self._labelled_pod if is_labelled else self._unlabelled_pod
            return decide_pod(request, found, labels, policies)
        if is_labelled and isinstance(found, Job):
            return _job(request, found, labels, policies)
        return Outcome(Reason.NOT_HANDLED if is_labelled else Reason.NOT_LABELLED)

    def _labelled_pod(
        self, request: Request, pod: Pod, labels: Mapping[str, str], policies: Callable[[], PolicySet]
    ) -> Outcome | Pending:
        if request.is_mirror_pod():
            return Outcome(Reason.MIRROR_POD)
        resolved = resolve_policy(policies(), request.namespace, labels)
        if isinstance(resolved, Denial):
            return Outcome.of(resolved, None)
        if not resolved.policy.gives_share:
            return _patched(without_share(pod, resolved.policy), Reason.NO_SHARE, resolved.policy)
        begun = self.begin(request, pod, resolved)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)

    def _unlabelled_pod(
        self, request: Request, pod: Pod, labels: Mapping[str, str], policies: Callable[[], PolicySet]
    ) -> Outcome | Pending:
        """Decide an unlabelled pod by the policy's aliases; admit it unchanged if there are none."""
        try:
            resolved = resolve_policy(policies(), request.namespace, labels)
        except NoPoliciesError:
            # Such a pod is sent only if a policy accepts this syntax: it must not start without its limit.
            if (request.too_large is None and not asks_in_other_words(pod)) or request.is_mirror_pod():
                return Outcome(Reason.NOT_LABELLED)
            raise
        if isinstance(resolved, Denial) or not resolved.policy.aliases:
            return Outcome(Reason.NOT_LABELLED)
        alias = request.too_large or read_alias(pod, resolved.policy)
        if alias is None:
            return Outcome(Reason.NOT_LABELLED)
        if request.is_mirror_pod():
            return Outcome(Reason.MIRROR_POD)
        begun = alias if isinstance(alias, Denial) else self._begin_alias(request, alias, resolved)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)

    def begin(self, request: Request, pod: Pod, resolved: ResolvedPolicy) -> Pending | Injection | Denial:
        """Return the decision for a labelled pod, or the placement request on which it depends."""
        policy = resolved.policy
        validated = validate(pod, request.namespace, policy, request.whole_object, self._mig_cards)
        if isinstance(validated, Denial):
            return validated
        kept = validated.kept
        if kept is not None and not self._may_run(kept.memory_values, policy):
            return refuse_copy_from_elsewhere(kept.memory_values[0])
        if kept is not None and not (policy.quotas or keeps_assumption(validated) or has_claim(validated)):
            return mutate(validated, kept)
        placing = placement_request(validated, accounting_of(request, resolved))
        if isinstance(placing, Denial):
            return placing
        if kept is None:
            return Pending(placing, partial(mutate, validated), policy)
        is_reserved = placing.accounting.reservation is not None
        return Pending(placing, partial(_keep, validated, kept, is_reserved=is_reserved), policy)

    def _may_run(self, memory_values: Sequence[str], policy: EffectivePolicy) -> bool:
        """Whether a node may have one of these values, now or as the policy assumes."""
        assume = policy.demands.assume
        is_assumed = assume is not None and str(assume.gpu_mib) in memory_values
        return not memory_values or is_assumed or self._may_have(memory_values)

    def _begin_alias(
        self, request: Request, alias: Alias, resolved: ResolvedPolicy
    ) -> Pending | Injection | Denial:
        """Return the same for an unlabelled pod that was translated from another system's syntax."""
        begun = self.begin(request, alias.pod, resolved)
        if isinstance(begun, Pending):
            return Pending(begun.request, partial(_mutate_alias, alias, begun.finish), begun.policy)
        return begun


def _change(request: Request) -> Outcome:
    """Deny an update of a labelled pod that Kubernetes would reject; allow all other updates."""
    found, denial = request.object, None
    is_update = (request.operation, request.resource, request.sub_resource) == ("UPDATE", "pods", "")
    if is_update and isinstance(found, Pod) and asked_of(found.metadata) is not None:
        denial = refuse_change(request.body)
    return Outcome(Reason.NOT_HANDLED) if denial is None else Outcome.of(denial, None)


def _job(request: Request, job: Job, labels: Mapping[str, str], policies: Callable[[], PolicySet]) -> Outcome:
    resolved = resolve_policy(policies(), request.namespace, labels)
    if isinstance(resolved, Denial):
        return Outcome.of(resolved, None)
    patch = prepare_job(job, resolved.policy)
    return _patched(patch, Reason.INJECTED if patch else Reason.UNCHANGED, resolved.policy)


def _patched(patch: bytes | Denial, reason: Reason, policy: EffectivePolicy) -> Outcome:
    if isinstance(patch, Denial):
        return Outcome.of(patch, policy)
    return Outcome(reason, patch, policy=policy)


def _mutate_alias(
    alias: Alias, finish: Callable[[Placement], Injection | Denial], placement: Placement
) -> Injection | Denial:
    injection = finish(placement)
    if isinstance(injection, Denial):
        return injection
    patch = joined(alias.operations, injection.patch)
    return msgspec.structs.replace(injection, patch=patch, alias=alias.words)


def accounting_of(request: Request, resolved: ResolvedPolicy) -> Accounting:
    """Return the part of a placement request that is specific to this pod."""
    policy, rules = resolved.policy, resolved.policy.quotas
    when_degraded = {rule.when_degraded for rule in rules}
    return Accounting(
        namespace=request.namespace,
        queues=resolved.queues,
        reservation=None if request.dry_run else request.uid,
        pod=request.pod_identity() if rules else "",
        owner=request.owner(resolved.queues) if policy.demands.need_owner else "",
        quotas=tuple([rule.quota for rule in rules]) if rules else (),
        quotas_when_degraded="admit" if when_degraded <= {"admit"} else "deny",
        waits_when_degraded=policy.demands.when_over_quota == "wait"
        and "wait" in when_degraded
        and "deny" not in when_degraded,
    )


def _keep(
    validated: Validated, kept: Placement, result: Placement, *, is_reserved: bool
) -> Injection | Denial:
    """Keep the pod's existing placement, unless the ledger knows better: someone may have written it."""
    if result.cards != kept.cards:
        return mutate(validated, result)
    if keeps_assumption(validated) and not result.memory_values:
        kept = msgspec.structs.replace(kept, memory_values=())
    elif keeps_assumption(validated) and not kept.memory_values:
        return refuse_index(validated.containers) or mutate(validated, result)
    kept = msgspec.structs.replace(
        kept, other_memory_values=result.other_memory_values, waits_for_quota=result.waits_for_quota
    )
    if not is_reserved:
        return mutate(validated, kept)
    named = msgspec.structs.replace(kept, reservation=result.reservation, degraded=result.degraded)
    return mutate(validated, named)
