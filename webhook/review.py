"""One review from bytes to bytes: the small shell around the pure decision."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from ledger.ask import Answer, Misfit, OverQuota, Placement
from policies.effective import EffectivePolicy
from webhook.envelope import Request, allow, decode, deny
from webhook.injection.annotations import INJECTED
from webhook.injection.inject import Injection, inject
from webhook.injection.job import prepare_job
from webhook.injection.patch import Operation
from webhook.injection.plan import Plan, ask_of, make_plan
from webhook.injection.refusals import refuse_index
from webhook.injection.written import Written
from webhook.placer import Placer, Unanswered
from webhook.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, Job, ObjectMeta, Pod, label_of
from webhook.reasons import Denial, Reason

_NOTHING = Written()


class Policies(Protocol):
    """Settles which policy a pod follows."""

    def resolve(self, namespace: str, queue_name: str | None, queue_id: str | None) -> EffectivePolicy:
        """Give the effective policy of a namespace and queue; never fails."""


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """One decision, as it is answered, logged and counted. Never holds anything of the pod's own text."""

    reason: Reason
    operations: list[Operation] | None = None
    denial: Denial | None = None
    injection: Injection | None = None
    policy: EffectivePolicy | None = None
    error: str | None = None
    """Kind and place of an internal error, for the admin."""

    @property
    def decision(self) -> str:
        """Word for logs, metrics and audit: allowed or denied."""
        return "denied" if self.denial is not None else "allowed"


Observer = Callable[[Request, Outcome, float], None]
"""Told of each decision, with the seconds it took."""


class Reviewer:
    """Decides reviews under the policies of the moment."""

    def __init__(self, policies: Callable[[], Policies], placer: Placer, observe: Observer) -> None:
        self._policies = policies
        self._placer = placer
        self._observe = observe

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        start = time.perf_counter()
        request = decode(body)
        try:
            outcome = await self._decide(request)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is not let through
            outcome = _broken(request, error)
        reply = _reply(request, outcome)
        self._observe(request, outcome, time.perf_counter() - start)
        return reply

    async def _decide(self, request: Request) -> Outcome:
        found = request.object
        if request.operation != "CREATE" or request.sub_resource:
            return Outcome(Reason.NOT_HANDLED)
        if isinstance(found, Denial):
            return Outcome(found.reason, denial=found)
        if found is None or label_of(found.metadata) is None:
            return Outcome(Reason.NOT_LABELLED)
        if isinstance(found, Job):
            return self._job(request, found)
        if request.resource == "pods":
            return await self._pod(request, found)
        return Outcome(Reason.NOT_HANDLED)

    def _job(self, request: Request, job: Job) -> Outcome:
        policy = self._policy(request, job.metadata)
        operations = prepare_job(job, policy)
        if isinstance(operations, Denial):
            return Outcome(operations.reason, denial=operations, policy=policy)
        return Outcome(Reason.INJECTED if operations else Reason.UNCHANGED, operations, policy=policy)

    async def _pod(self, request: Request, pod: Pod) -> Outcome:
        policy = self._policy(request, pod.metadata)
        claims = pod.metadata is not None and INJECTED in (pod.metadata.annotations or ())
        written = Written(request.whole_object()) if claims else _NOTHING
        plan = make_plan(pod, request.namespace, policy, written)
        decided = await self._place(plan, request) if isinstance(plan, Plan) else plan
        if isinstance(decided, Denial):
            return Outcome(decided.reason, denial=decided, policy=policy)
        reason = Reason.INJECTED if decided.operations else Reason.UNCHANGED
        return Outcome(reason, decided.operations, injection=decided, policy=policy)

    async def _place(self, plan: Plan, request: Request) -> Injection | Denial:
        if plan.kept is not None:
            return await self._keep(plan, plan.kept)
        ask = ask_of(plan, None if request.dry_run else request.uid)
        if isinstance(ask, Denial):
            return ask
        answer = await self._placer.place(ask)
        if not isinstance(answer, Placement):
            return _refused(answer)
        decided = inject(plan, answer)
        if isinstance(decided, Denial) and answer.reservation is not None:
            await self._placer.release(answer.reservation)
        return decided

    async def _keep(self, plan: Plan, kept: Placement) -> Injection | Denial:
        """Let stand what the pod brings, unless the ledger knows better: it may have been written by hand."""
        if not plan.policy.quotas and not plan.keeps_assumption:
            return inject(plan, kept)
        ask = ask_of(plan, None)
        if isinstance(ask, Denial):
            return ask
        answer = await self._placer.place(ask)
        if isinstance(answer, (OverQuota, Unanswered)):
            return _refused(answer)
        if plan.keeps_assumption and isinstance(answer, Placement) and answer.memory_values:
            return refuse_index(plan.containers) or inject(plan, answer)
        return inject(plan, kept)

    def _policy(self, request: Request, metadata: ObjectMeta | None) -> EffectivePolicy:
        labels = (metadata.labels if metadata is not None else None) or {}
        queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
        return self._policies().resolve(request.namespace, queue_name, queue_id)


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
    return allow(request, outcome.reason, outcome.operations, "degraded" if degraded else None)
