"""The pure part of a review: chooses who decides it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kube.names import ASKING_LABELS
from ledger.placement_request import Placement
from policies.loading.reload import NoPoliciesError
from policies.model.effective import EffectivePolicy
from webhook.admission.aliases import asks_in_other_words, is_surely_without_aliases, read_alias
from webhook.admission.denial import Denial, Reason
from webhook.admission.jobs import prepare_job
from webhook.admission.label import asked_of
from webhook.admission.no_share import without_share
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job, Pod
from webhook.admission.sizes import refuse_too_large
from webhook.admission_request import MIRROR_ANNOTATION, Request
from webhook.admission_review import Head
from webhook.decision import Outcome, Pending
from webhook.pod_change import refuse_change
from webhook.policy_resolver import Policies, ResolvedPolicy, resolve_policy
from webhook.rules import Rules

NO_POLICIES = "the injector started with broken policies: ask the admin to fix them, see /readyz"


class Dispatcher:
    """Decides reviews under the current policies, except for their placement. Raises no Exception."""

    def __init__(self, policies: Callable[[], Policies], rules: Rules) -> None:
        self._policies = policies
        self._rules = rules

    def begin(self, request: Request) -> Outcome | Pending:
        """Return the outcome, or the placement request on which it depends."""
        found = request.object
        try:
            if request.operation != "CREATE" or request.sub_resource:
                return self._change(request)
            if isinstance(found, Pod):
                return self._pod(request, found)
            return self._job(request, found) if isinstance(found, Job) else _unread(request, found)
        except NoPoliciesError:
            return Outcome.of(Denial.of(Reason.NO_POLICIES, NO_POLICIES), None)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is never admitted unchanged
            return broken(request, error)

    def finish(self, request: Request, pending: Pending, placement: Placement) -> Outcome:
        """Return the review's outcome, after the placement."""
        try:
            return Outcome.of(pending.finish(placement), pending.policy)
        except Exception as error:  # noqa: BLE001 as above
            return broken(request, error)

    def decide_by_head(self, head: Head) -> Outcome:
        """Return the outcome of a review that is too large to be decoded.

        Updates are left to the API server, which itself rejects what would be denied here.
        """
        request = head.request
        if isinstance(request.object, Denial):
            return Outcome.of(request.object, None)
        if request.operation != "CREATE" or request.sub_resource:
            return Outcome(Reason.NOT_HANDLED)
        try:
            if head.is_labelled or (request.resource == "pods" and self._may_take(head)):
                return Outcome.of(refuse_too_large(request.body), None)
        except Exception as error:  # noqa: BLE001 as above
            return broken(request, error)
        return Outcome(Reason.NOT_LABELLED)

    def _find(self, request: Request, labels: Mapping[str, str]) -> ResolvedPolicy | Denial:
        queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
        return resolve_policy(self._policies(), request.namespace, queue_name, queue_id)

    def _may_take(self, head: Head) -> bool:
        """Whether an unlabelled pod may use another system's syntax that a policy accepts."""
        try:
            resolved = resolve_policy(self._policies(), head.request.namespace, *head.queue)
        except NoPoliciesError:
            return not is_surely_without_aliases(head.request.body)
        if isinstance(resolved, Denial):
            return False
        aliases = resolved.policy.aliases
        return bool(aliases) and not is_surely_without_aliases(head.request.body, aliases)

    def _change(self, request: Request) -> Outcome:
        """Deny an update of a labelled pod that Kubernetes would reject; allow all other updates."""
        denial = None
        if request.operation == "UPDATE" and request.resource == "pods" and not request.sub_resource:
            found = request.object
            if isinstance(found, Pod) and asked_of(found.metadata) is not None:
                denial = refuse_change(request.body)
        return Outcome(Reason.NOT_HANDLED) if denial is None else Outcome.of(denial, None)

    def _job(self, request: Request, job: Job) -> Outcome:
        labels = (job.metadata.labels if job.metadata is not None else None) or {}
        if labels.keys().isdisjoint(ASKING_LABELS):
            return Outcome(Reason.NOT_LABELLED)
        resolved = self._find(request, labels)
        if isinstance(resolved, Denial):
            return Outcome.of(resolved, None)
        policy = resolved.policy
        patch = prepare_job(job, policy)
        if isinstance(patch, Denial):
            return Outcome(patch.reason, denial=patch, policy=policy)
        return Outcome(Reason.INJECTED if patch else Reason.UNCHANGED, patch, policy=policy)

    def _pod(self, request: Request, pod: Pod) -> Outcome | Pending:
        metadata = pod.metadata
        labels = (metadata.labels if metadata is not None else None) or {}
        if metadata is None or labels.keys().isdisjoint(ASKING_LABELS):
            return self._alias(request, pod)
        if request.resource != "pods":
            return Outcome(Reason.NOT_HANDLED)
        if _is_mirror(request, metadata.annotations):
            return Outcome(Reason.MIRROR_POD)
        resolved = self._find(request, labels)
        if isinstance(resolved, Denial):
            return Outcome.of(resolved, None)
        if not resolved.policy.gives_share:
            return _without_share(pod, resolved.policy)
        begun = self._rules.begin(request, pod, resolved)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)

    def _alias(self, request: Request, pod: Pod) -> Outcome | Pending:
        """Decide an unlabelled pod by the policy's aliases; admit it unchanged if there are none."""
        if pod.metadata is None or request.resource != "pods":
            return Outcome(Reason.NOT_LABELLED)
        try:
            resolved = self._find(request, pod.metadata.labels or {})
        except NoPoliciesError:
            # Such a pod is sent only if a policy accepts this syntax: it must not start without its limit.
            if asks_in_other_words(pod) and not _is_mirror(request, pod.metadata.annotations):
                raise
            return Outcome(Reason.NOT_LABELLED)
        if isinstance(resolved, Denial) or not resolved.policy.aliases:
            return Outcome(Reason.NOT_LABELLED)
        alias = read_alias(pod, resolved.policy)
        if alias is None:
            return Outcome(Reason.NOT_LABELLED)
        if _is_mirror(request, pod.metadata.annotations):
            return Outcome(Reason.MIRROR_POD)
        begun = alias if isinstance(alias, Denial) else self._rules.begin_alias(request, alias, resolved)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)


def _unread(request: Request, found: Denial | None) -> Outcome:
    """Return the outcome for an object that is unreadable or missing."""
    if found is None:
        return Outcome(Reason.NOT_LABELLED)
    return Outcome(Reason.MIRROR_POD) if request.is_mirror_pod() else Outcome.of(found, None)


def _without_share(pod: Pod, policy: EffectivePolicy) -> Outcome:
    patch = without_share(pod, policy)
    if isinstance(patch, Denial):
        return Outcome(patch.reason, denial=patch, policy=policy)
    return Outcome(Reason.NO_SHARE, patch, policy=policy)


def _is_mirror(request: Request, annotations: Collection[str] | None) -> bool:
    return MIRROR_ANNOTATION in (annotations or ()) and request.is_mirror_pod()


def broken(request: Request, error: Exception) -> Outcome:
    """Deny without text of the pod: only the type of the error and its line of code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    text = f"internal error ({type(error).__name__}) in review {request.uid}: try again or tell your admin"
    return Outcome(Reason.INTERNAL, denial=Denial.of(Reason.INTERNAL, text), error=place)
