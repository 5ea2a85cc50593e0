"""The pure part of a review until its placement: chooses who decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube.names import ASKING_LABELS
from policies.loading.policy_set import PolicySet
from policies.loading.reload import NoPoliciesError
from policies.model.effective import EffectivePolicy
from webhook.admission.aliases import asks_in_other_words, read_alias
from webhook.admission.denial import Denial, Reason
from webhook.admission.jobs import prepare_job
from webhook.admission.label import asked_of
from webhook.admission.no_share import without_share
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job, ObjectMeta, Pod
from webhook.admission_request import Request
from webhook.decision import Outcome, Pending
from webhook.pod_change import refuse_change
from webhook.policy_resolver import ResolvedPolicy, resolve_policy
from webhook.rules import Rules


def decide(request: Request, policies: Callable[[], PolicySet], rules: Rules) -> Outcome | Pending:
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
        decide_pod = _labelled_pod if is_labelled else _unlabelled_pod
        return decide_pod(request, found, labels, policies, rules)
    if not is_labelled:
        return Outcome(Reason.NOT_LABELLED)
    return _job(request, found, labels, policies) if isinstance(found, Job) else Outcome(Reason.NOT_HANDLED)


def _resolved(
    request: Request, labels: Mapping[str, str], policies: Callable[[], PolicySet]
) -> ResolvedPolicy | Denial:
    queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
    return resolve_policy(policies(), request.namespace, queue_name, queue_id)


def _change(request: Request) -> Outcome:
    """Deny an update of a labelled pod that Kubernetes would reject; allow all other updates."""
    found, denial = request.object, None
    is_update = request.operation == "UPDATE" and request.resource == "pods" and not request.sub_resource
    if is_update and isinstance(found, Pod) and asked_of(found.metadata) is not None:
        denial = refuse_change(request.body)
    return Outcome(Reason.NOT_HANDLED) if denial is None else Outcome.of(denial, None)


def _job(request: Request, job: Job, labels: Mapping[str, str], policies: Callable[[], PolicySet]) -> Outcome:
    resolved = _resolved(request, labels, policies)
    if isinstance(resolved, Denial):
        return Outcome.of(resolved, None)
    patch = prepare_job(job, resolved.policy)
    return _patched(patch, Reason.INJECTED if patch else Reason.UNCHANGED, resolved.policy)


def _labelled_pod(
    request: Request, pod: Pod, labels: Mapping[str, str], policies: Callable[[], PolicySet], rules: Rules
) -> Outcome | Pending:
    if request.is_mirror_pod():
        return Outcome(Reason.MIRROR_POD)
    resolved = _resolved(request, labels, policies)
    if isinstance(resolved, Denial):
        return Outcome.of(resolved, None)
    if not resolved.policy.gives_share:
        return _patched(without_share(pod, resolved.policy), Reason.NO_SHARE, resolved.policy)
    begun = rules.begin(request, pod, resolved)
    return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)


def _unlabelled_pod(
    request: Request, pod: Pod, labels: Mapping[str, str], policies: Callable[[], PolicySet], rules: Rules
) -> Outcome | Pending:
    """Decide an unlabelled pod by the policy's aliases; admit it unchanged if there are none."""
    try:
        resolved = _resolved(request, labels, policies)
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
    begun = alias if isinstance(alias, Denial) else rules.begin_alias(request, alias, resolved)
    return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)


def _patched(patch: bytes | Denial, reason: Reason, policy: EffectivePolicy) -> Outcome:
    if isinstance(patch, Denial):
        return Outcome.of(patch, policy)
    return Outcome(reason, patch, policy=policy)
