"""One review from bytes to bytes: the small shell around the pure decision."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from ledger.ask import Answer, Ask, Misfit, OverQuota, Placement
from policies.effective import EffectivePolicy
from webhook.envelope import Request, allow, decode, deny
from webhook.injection.annotations import INJECTED
from webhook.injection.asking import ask_of, for_pod
from webhook.injection.inject import Injection, inject
from webhook.injection.job import prepare_job
from webhook.injection.known_forms import KnownForm, KnownForms
from webhook.injection.patch import encode
from webhook.injection.plan import Plan, make_plan
from webhook.injection.refusals import refuse_index
from webhook.injection.written import Written
from webhook.outline import PodOutline
from webhook.placer import Placer, Unanswered
from webhook.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, HasLabels, Job, label_of
from webhook.reasons import Denial, Reason


class Policies(Protocol):
    """Settles which policy a pod follows."""

    def resolve(self, namespace: str, queue_name: str | None, queue_id: str | None) -> EffectivePolicy:
        """Give the effective policy of a namespace and queue; never fails."""


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """One decision, as it is answered, logged and counted. Never holds anything of the pod's own text."""

    reason: Reason
    patch: bytes = b""
    """JSON text of the JSON Patch; empty where nothing is to be changed."""
    denial: Denial | None = None
    injection: Injection | None = None
    policy: EffectivePolicy | None = None
    error: str | None = None
    """Kind and place of an internal error, for the admin."""


class Question(msgspec.Struct, frozen=True, eq=False):
    """A decision that waits for the ledger's answer."""

    ask: Ask
    policy: EffectivePolicy
    conclude: Callable[[Answer | Unanswered], Injection | Denial]


Observer = Callable[[Request, Outcome, float], None]
"""Told of each decision, with the seconds it took."""


class Reviewer:
    """Decides reviews under the policies of the moment."""

    def __init__(self, policies: Callable[[], Policies], placer: Placer, observe: Observer) -> None:
        self._policies = policies
        self._placer = placer
        self._observe = observe
        self._forms = KnownForms()

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        start = time.perf_counter()
        request, answer = decode(body), None
        try:
            outcome = self._begin(request)
            if isinstance(outcome, Question):
                answer = await self._placer.place(outcome.ask)
                outcome = _outcome(outcome.conclude(answer), outcome.policy)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is not let through
            outcome = _broken(request, error)
        if outcome.denial is not None and isinstance(answer, Placement) and answer.reservation is not None:
            await self._placer.release(answer.reservation)
        reply = _reply(request, outcome)
        self._observe(request, outcome, time.perf_counter() - start)
        return reply

    def _begin(self, request: Request) -> Outcome | Question:
        """Decide, or come to the question for the ledger."""
        found = request.object
        if request.operation != "CREATE" or request.sub_resource:
            return Outcome(Reason.NOT_HANDLED)
        if isinstance(found, Denial):
            return Outcome(found.reason, denial=found)
        label = label_of(found.metadata) if found is not None else None
        if found is None or label is None:
            return Outcome(Reason.NOT_LABELLED)
        if isinstance(found, Job):
            return self._job(request, found)
        if request.resource == "pods":
            return self._pod(request, found, label)
        return Outcome(Reason.NOT_HANDLED)

    def _job(self, request: Request, job: Job) -> Outcome:
        policy = self._policy(request, job.metadata)
        operations = prepare_job(job, policy)
        if isinstance(operations, Denial):
            return Outcome(operations.reason, denial=operations, policy=policy)
        if not operations:
            return Outcome(Reason.UNCHANGED, policy=policy)
        return Outcome(Reason.INJECTED, encode(operations), policy=policy)

    def _pod(self, request: Request, pod: PodOutline, label: str) -> Outcome | Question:
        policy = self._policy(request, pod.metadata)
        known = self._forms.find(pod, label, request.namespace, policy)
        asked = (
            _ask_by_rules(request, policy) if known is None else _ask_for_known(request, pod, policy, known)
        )
        return asked if isinstance(asked, Question) else _outcome(asked, policy)

    def _policy(self, request: Request, metadata: HasLabels | None) -> EffectivePolicy:
        labels = (metadata.labels if metadata is not None else None) or {}
        queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
        return self._policies().resolve(request.namespace, queue_name, queue_id)


def _ask_for_known(request: Request, pod: PodOutline, policy: EffectivePolicy, known: KnownForm) -> Question:
    labels = (pod.metadata.labels if pod.metadata is not None else None) or {}
    queue = labels.get(QUEUE_NAME_LABEL)
    ask = for_pod(known.ask, request.namespace, queue, policy, _reservation(request))
    return Question(ask, policy, partial(_conclude_known, request, pod, policy, known))


def _conclude_known(
    request: Request,
    pod: PodOutline,
    policy: EffectivePolicy,
    known: KnownForm,
    answer: Answer | Unanswered,
) -> Injection | Denial:
    """Fill the form's stencil in; where a rule has something against the placement, let it tell the pod."""
    if not isinstance(answer, Placement):
        return _refused(answer)
    injection = known.inject(pod, answer)
    if injection is not None:
        return injection
    plan = _plan(request, policy)
    return plan if isinstance(plan, Denial) else inject(plan, answer)


def _ask_by_rules(request: Request, policy: EffectivePolicy) -> Question | Injection | Denial:
    plan = _plan(request, policy)
    if isinstance(plan, Denial):
        return plan
    kept = plan.kept
    if kept is not None and not policy.quotas and not plan.keeps_assumption:
        return inject(plan, kept)
    ask = ask_of(plan, _reservation(request) if kept is None else None)
    if isinstance(ask, Denial):
        return ask
    conclude = partial(_conclude_new, plan) if kept is None else partial(_conclude_kept, plan, kept)
    return Question(ask, policy, conclude)


def _plan(request: Request, policy: EffectivePolicy) -> Plan | Denial:
    pod = request.pod()
    if isinstance(pod, Denial):
        return pod
    claims = pod.metadata is not None and INJECTED in (pod.metadata.annotations or ())
    written = Written(request.whole_object()) if claims else Written()
    return make_plan(pod, request.namespace, policy, written)


def _conclude_new(plan: Plan, answer: Answer | Unanswered) -> Injection | Denial:
    return inject(plan, answer) if isinstance(answer, Placement) else _refused(answer)


def _conclude_kept(plan: Plan, kept: Placement, answer: Answer | Unanswered) -> Injection | Denial:
    """Let stand what the pod brings, unless the ledger knows better: it may have been written by hand."""
    if isinstance(answer, (OverQuota, Unanswered)):
        return _refused(answer)
    if plan.keeps_assumption and isinstance(answer, Placement) and answer.memory_values:
        return refuse_index(plan.containers) or inject(plan, answer)
    return inject(plan, kept)


def _reservation(request: Request) -> str | None:
    """Name under which to reserve; none for a dry run."""
    return None if request.dry_run else request.uid


def _outcome(decided: Injection | Denial, policy: EffectivePolicy) -> Outcome:
    if isinstance(decided, Denial):
        return Outcome(decided.reason, denial=decided, policy=policy)
    reason = Reason.INJECTED if decided.patch else Reason.UNCHANGED
    return Outcome(reason, decided.patch, None, decided, policy)


def _refused(answer: Answer | Unanswered) -> Denial:
    if isinstance(answer, Unanswered):
        return Denial.of(answer.reason, answer.why)
    if isinstance(answer, OverQuota):
        quota = answer.quota
        return Denial.of(
            Reason.OVER_QUOTA,
            f'quota of {quota.scope} "{quota.name}": {answer.used} of {answer.limit} {answer.unit} are used,'
            f" {answer.asked} more were asked: wait, or ask for a smaller fraction",
        )
    assert isinstance(answer, Misfit)  # noqa: S101 the last of three kinds; for the type checker
    return Denial.of(Reason.NO_NODE, f"no node of this cluster could ever hold the pod: {answer.why}")


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
