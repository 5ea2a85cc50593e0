"""One review from bytes to bytes: the small shell around the pure decision."""

from __future__ import annotations

import traceback
from asyncio import Future
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

from kube.names import ASKING_LABELS
from ledger.placement_request import Placement
from policies.loading.reload import NoPoliciesError
from webhook.admission.denial import Denial, Reason
from webhook.admission.jobs import prepare_job
from webhook.admission.mutate import Injection
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job
from webhook.admission_request import MIRROR_ANNOTATION, PodObject, Request
from webhook.admission_review import allow, decode, deny
from webhook.decision import Decider, Outcome, Pending, deny_unplaced
from webhook.placing.placer import Placed, Placer
from webhook.pod_change import refuse_change
from webhook.policy_resolver import Policies, PolicyResolver
from webhook.rules import begin_alias, may_be_alias

NO_POLICIES = "the injector's policies are broken since it started: ask the admin to mend them, see /readyz"

Observer = Callable[[Request, Outcome, float], None]
"""Told of each decision, with the seconds it took."""


class Reviewer:
    """Decides reviews under the policies of the moment."""

    def __init__(
        self, policies: Callable[[], Policies], decider: Decider, placer: Placer, observe: Observer
    ) -> None:
        self._resolver = PolicyResolver(policies)
        self._decider = decider
        self._placer = placer
        self._observe = observe

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview, waiting for the ledger where that must be.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        answer = self.answer(body)
        return answer if isinstance(answer, bytes) else await answer

    def answer(self, body: bytes) -> bytes | Coroutine[Any, Any, bytes]:
        """Answer at once, or give what answers when the ledger has; raises as `review` does."""
        start = perf_counter()
        request = decode(body, self._decider.pod_type)
        try:
            outcome = self._begin(request)
            if isinstance(outcome, Pending):
                placed = self._placer.place(outcome.request)
                if isinstance(placed, Future):
                    return self._answer_later(request, outcome, placed, start)
                outcome = self._finish(outcome, placed)
        except NoPoliciesError:
            outcome = Outcome.of(Denial.of(Reason.NO_POLICIES, NO_POLICIES), None)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is not let through
            outcome = _broken(request, error)
        return self._end(request, outcome, start)

    async def _answer_later(
        self, request: Request, pending: Pending, placed: Future[Placed], start: float
    ) -> bytes:
        try:
            outcome = self._finish(pending, await placed)
        except Exception as error:  # noqa: BLE001 as above
            outcome = _broken(request, error)
        return self._end(request, outcome, start)

    def _finish(self, pending: Pending, result: Placed) -> Outcome:
        """Return the outcome; the reservation for a pod that is denied after all is released."""
        decided = None
        try:
            decided = pending.finish(result) if isinstance(result, Placement) else deny_unplaced(result)
        finally:
            if not isinstance(decided, Injection) and isinstance(result, Placement):
                self._release(result)
        return Outcome.of(decided, pending.policy)

    def _release(self, placement: Placement) -> None:
        if placement.reservation is not None:
            self._placer.release(placement.reservation)

    def _end(self, request: Request, outcome: Outcome, start: float) -> bytes:
        reply = _reply(request, outcome)
        self._observe(request, outcome, perf_counter() - start)
        return reply

    def _begin(self, request: Request) -> Outcome | Pending:
        """Return the outcome, or the placement request that it depends on."""
        found = request.object
        if request.operation != "CREATE" or request.sub_resource:
            return self._change(request)
        if isinstance(found, PodObject):
            return self._pod(request, found)
        if isinstance(found, Job):
            return self._job(request, found)
        if isinstance(found, Denial):
            return Outcome(Reason.MIRROR_POD) if request.is_mirror_pod() else Outcome.of(found, None)
        return Outcome(Reason.NOT_LABELLED)

    def _change(self, request: Request) -> Outcome:
        """Refuse an update of a labelled pod that Kubernetes would refuse; let everything else pass."""
        denial = None
        if request.operation == "UPDATE" and request.resource == "pods" and not request.sub_resource:
            found = request.object
            if isinstance(found, PodObject) and found.labels is not None:
                denial = refuse_change(request.body)
        return Outcome(Reason.NOT_HANDLED) if denial is None else Outcome.of(denial, None)

    def _job(self, request: Request, job: Job) -> Outcome:
        labels = (job.metadata.labels if job.metadata is not None else None) or {}
        if labels.keys().isdisjoint(ASKING_LABELS):
            return Outcome(Reason.NOT_LABELLED)
        queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
        resolved = self._resolver.find(request.namespace, queue_name, queue_id)
        if isinstance(resolved, Denial):
            return Outcome.of(resolved, None)
        policy = resolved.policy
        patch = prepare_job(job, policy)
        if isinstance(patch, Denial):
            return Outcome(patch.reason, denial=patch, policy=policy)
        return Outcome(Reason.INJECTED if patch else Reason.UNCHANGED, patch, policy=policy)

    def _pod(self, request: Request, pod: PodObject) -> Outcome | Pending:
        metadata, labels = pod.metadata, pod.labels
        if metadata is None or labels is None:
            return self._alias(request, pod)
        if request.resource != "pods":
            return Outcome(Reason.NOT_HANDLED)
        if _is_mirror(request, metadata.annotations):
            return Outcome(Reason.MIRROR_POD)
        resolved = self._resolver.find(request.namespace, labels.queue_name, labels.queue_id)
        if isinstance(resolved, Denial):
            return Outcome.of(resolved, None)
        begun = self._decider.begin(request, resolved)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)

    def _alias(self, request: Request, pod: PodObject) -> Outcome | Pending:
        """Decide an unlabelled pod: by the policy's aliases where it has some, else it is let through."""
        labels = pod.metadata.labels if pod.metadata is not None else None
        names = (None, None) if labels is None else (labels.queue_name, labels.queue_id)
        if pod.metadata is None or request.resource != "pods":
            return Outcome(Reason.NOT_LABELLED)
        try:
            resolved = self._resolver.find(request.namespace, *names)
        except NoPoliciesError:
            # Only where a policy takes these words is such a pod sent: it shall not start without its limit.
            if may_be_alias(request) and not _is_mirror(request, pod.metadata.annotations):
                raise
            return Outcome(Reason.NOT_LABELLED)
        if isinstance(resolved, Denial) or not resolved.policy.aliases:
            return Outcome(Reason.NOT_LABELLED)
        begun = begin_alias(request, resolved)
        if begun is None:
            return Outcome(Reason.NOT_LABELLED)
        if _is_mirror(request, pod.metadata.annotations):
            return Outcome(Reason.MIRROR_POD)
        return begun if isinstance(begun, Pending) else Outcome.of(begun, resolved.policy)


def _is_mirror(request: Request, annotations: Collection[str] | None) -> bool:
    return MIRROR_ANNOTATION in (annotations or ()) and request.is_mirror_pod()


def _broken(request: Request, error: Exception) -> Outcome:
    """Deny in words that hold nothing of the pod: the kind of error and its line of code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    text = f"internal error ({type(error).__name__}) in review {request.uid}: try again or tell your admin"
    return Outcome(Reason.INTERNAL, denial=Denial.of(Reason.INTERNAL, text), error=place)


def _reply(request: Request, outcome: Outcome) -> bytes:
    if outcome.denial is not None:
        return deny(request, outcome.denial)
    degraded = outcome.injection is not None and outcome.injection.placement.degraded
    return allow(request, outcome.reason, outcome.patch, "degraded" if degraded else None)
