"""One review from bytes to bytes: the small shell around the pure decision."""

from __future__ import annotations

import traceback
from asyncio import Future
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from msgspec import UNSET

from ledger.placement_request import Placement
from policies.loading.reload import NoPoliciesError
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.jobs import prepare_job
from webhook.admission.mutate import Injection
from webhook.admission.pod import LABEL, QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job
from webhook.admission.sizes import MAX_BYTES_UNCOUNTED, has_too_many
from webhook.decision import Question, ask_by_rules, ask_for_known
from webhook.envelope import MIRROR_ANNOTATION, Request, allow, decode, deny
from webhook.following import Following, Policies
from webhook.patch_cache.cache import KnownForms
from webhook.patch_cache.outline import PodOutline
from webhook.placing.placer import Placed, Placer
from webhook.pod_change import refuse_change

NO_POLICIES = "the injector's policies are broken since it started: ask the admin to mend them, see /readyz"

# To look a member up in its enumeration is a call of a function in Python.
_INJECTED, _UNCHANGED = Reason.INJECTED, Reason.UNCHANGED


class Outcome(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One decision, as it is answered, logged and counted. Never holds anything of the pod's own text."""

    reason: Reason
    patch: bytes = b""
    """JSON text of the JSON Patch; empty where nothing is to be changed."""
    denial: Denial | None = None
    injection: Injection | None = None
    policy: EffectivePolicy | None = None
    error: str | None = None
    """Kind and place of an internal error, for the admin."""


Observer = Callable[[Request, Outcome, float], None]
"""Told of each decision, with the seconds it took."""


class Reviewer:
    """Decides reviews under the policies of the moment."""

    def __init__(self, policies: Callable[[], Policies], placer: Placer, observe: Observer) -> None:
        self._following = Following(policies)
        self._placer = placer
        self._observe = observe
        self._forms = KnownForms()

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
        request = decode(body)
        try:
            outcome = self._begin(request)
            if isinstance(outcome, Question):
                placed = self._placer.place(outcome.ask)
                if isinstance(placed, Future):
                    return self._answer_later(request, outcome, placed, start)
                outcome = self._conclude(outcome, placed)
        except NoPoliciesError:
            outcome = _outcome(Denial.of(Reason.NO_POLICIES, NO_POLICIES), None)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is not let through
            outcome = _broken(request, error)
        return self._end(request, outcome, start)

    async def _answer_later(
        self, request: Request, question: Question, placed: Future[Placed], start: float
    ) -> bytes:
        try:
            outcome = self._conclude(question, await placed)
        except Exception as error:  # noqa: BLE001 as above
            outcome = _broken(request, error)
        return self._end(request, outcome, start)

    def _conclude(self, question: Question, answer: Placed) -> Outcome:
        """Make the decision; what was reserved for a pod that is not let in after all is given back."""
        decided = None
        try:
            decided = question.conclude(answer)
        finally:
            if not isinstance(decided, Injection) and isinstance(answer, Placement):
                self._give_back(answer)
        return _outcome(decided, question.policy)

    def _give_back(self, placement: Placement) -> None:
        if placement.reservation is not None:
            self._placer.release(placement.reservation)

    def _end(self, request: Request, outcome: Outcome, start: float) -> bytes:
        reply = _reply(request, outcome)
        self._observe(request, outcome, perf_counter() - start)
        return reply

    def _begin(self, request: Request) -> Outcome | Question:
        """Decide, or come to the question for the ledger."""
        found = request.object
        if request.operation != "CREATE" or request.sub_resource:
            return self._change(request)
        if isinstance(found, PodOutline):
            return self._pod(request, found)
        if isinstance(found, Job):
            return self._job(request, found)
        if isinstance(found, Denial):
            return Outcome(Reason.MIRROR_POD) if request.is_mirror_pod() else _outcome(found, None)
        return Outcome(Reason.NOT_LABELLED)

    def _change(self, request: Request) -> Outcome:
        """Refuse an update of a labelled pod that Kubernetes would refuse; let everything else pass."""
        denial = None
        if request.operation == "UPDATE" and request.resource == "pods" and not request.sub_resource:
            found = request.object
            labels = found.metadata.labels if isinstance(found, PodOutline) and found.metadata else None
            if labels is not None and labels.fraction is not UNSET:
                denial = refuse_change(request.body)
        return Outcome(Reason.NOT_HANDLED) if denial is None else _outcome(denial, None)

    def _job(self, request: Request, job: Job) -> Outcome:
        labels = (job.metadata.labels if job.metadata is not None else None) or {}
        if LABEL not in labels:
            return Outcome(Reason.NOT_LABELLED)
        queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
        followed = self._following.find(request.namespace, queue_name, queue_id)
        if isinstance(followed, Denial):
            return _outcome(followed, None)
        policy = followed.policy
        patch = prepare_job(job, policy)
        if isinstance(patch, Denial):
            return Outcome(patch.reason, denial=patch, policy=policy)
        return Outcome(Reason.INJECTED if patch else Reason.UNCHANGED, patch, policy=policy)

    def _pod(self, request: Request, pod: PodOutline) -> Outcome | Question:
        metadata = pod.metadata
        labels = metadata.labels if metadata is not None else None
        if metadata is None or labels is None or labels.fraction is UNSET:
            return Outcome(Reason.NOT_LABELLED)
        if request.resource != "pods":
            return Outcome(Reason.NOT_HANDLED)
        if MIRROR_ANNOTATION in (metadata.annotations or ()) and request.is_mirror_pod():
            return Outcome(Reason.MIRROR_POD)
        followed = self._following.find(request.namespace, labels.queue_name, labels.queue_id)
        if isinstance(followed, Denial):
            return _outcome(followed, None)
        policy = followed.policy
        if len(request.body) <= MAX_BYTES_UNCOUNTED or pod.spec is None or not has_too_many(pod.spec):
            known = self._forms.find(pod, labels, request.namespace, policy)
            if known is not None:
                return ask_for_known(request, pod, followed, known)
        asked = ask_by_rules(request, followed)
        return asked if isinstance(asked, Question) else _outcome(asked, policy)


def _outcome(decided: Injection | Denial, policy: EffectivePolicy | None) -> Outcome:
    if isinstance(decided, Denial):
        return Outcome(decided.reason, denial=decided, policy=policy)
    return Outcome(_INJECTED if decided.patch else _UNCHANGED, decided.patch, None, decided, policy)


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
