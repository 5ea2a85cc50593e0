"""One review from bytes to bytes: the small shell around the pure decision.

Pure code runs in the event loop if it takes a few milliseconds. If it takes longer, or if the body is large,
it runs in a worker that can be killed: no review delays others, whatever it contains.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, shield
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import Any

from ledger.placement_request import Placement, PlacementRequest
from webhook.admission.denial import Reason
from webhook.admission_request import Request
from webhook.admission_review import Head, UnreadableReviewError, allow, decode, decode_head, deny
from webhook.decision import Decider, Outcome, Pending, deny_unplaced
from webhook.dispatch import TOO_COSTLY, Dispatcher, broken, undecided
from webhook.inline_budget import NEW, InlineBudget, OverrunError
from webhook.placing.placer import Placed, Placer, Unanswered, Unplaced
from webhook.policy_resolver import Policies
from webhook.recent_overruns import RecentOverruns
from webhook.worker.limits import DECIDE_SECONDS, INLINE_BYTES
from webhook.worker.messages import Decided
from webhook.worker.workers import BUSY, UndecidedError, Workers

MAX_WAITING_BYTES = 32 * 2**20
"""Of reviews that wait for a placement: as many as connected clients can have at once. Those of clients that
left wait, too, and service/http/limits.py no longer counts their bytes."""
Observer = Callable[[Request, Outcome, float], None]
"""Called for each decision, with the seconds it took."""
Answer = bytes | Coroutine[Any, Any, bytes]
_CANCELLED = Unanswered(Reason.INTERNAL, "its placement was cancelled: try again or tell your admin")


class Reviewer:
    """Decides reviews under the current policies."""

    def __init__(
        self,
        policies: Callable[[], Policies],
        decider: Decider,
        placer: Placer,
        observe: Observer,
        workers: Workers | None = None,
    ) -> None:
        """Without `workers`, every review is decided in the event loop, however long that takes."""
        self.dispatcher = Dispatcher(policies, decider)
        self._placer = placer
        self._observe = observe
        self._workers = workers
        self._inline_bytes = INLINE_BYTES if workers is not None else float("inf")
        self._budget = workers.budget if workers is not None else InlineBudget()
        self._overruns = RecentOverruns()
        self._waiting_bytes = 0

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview; wait for the ledger or a worker if necessary.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        answer = self.answer(body)
        return answer if isinstance(answer, bytes) else await answer

    def answer(self, body: bytes) -> Answer:
        """Answer at once, or return a coroutine that answers; raises as `review` does."""
        start, budget, outcome = perf_counter(), self._budget, None
        if len(body) > self._inline_bytes:
            return self._leave_to_worker(body, start)
        try:
            budget.since = NEW
            try:
                request = decode(body, self.dispatcher.pod_type)
                if not self._overruns or not self._overruns.hold(request.namespace, start):
                    outcome = self.dispatcher.begin(request)
            finally:
                budget.since = None
        except OverrunError:
            return self._leave_to_worker(body, start, overran=True)
        if isinstance(outcome, Pending):
            return self._place(request, outcome, start)
        return self._leave_to_worker(body, start) if outcome is None else self._end(request, outcome, start)

    def _place(self, request: Request, pending: Pending, start: float) -> Answer:
        if self._waiting_bytes > MAX_WAITING_BYTES:
            return self._end(request, Outcome.of(BUSY, pending.policy), start)
        try:
            placed = self._placer.place(pending.request)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is never admitted unchanged
            return self._end(request, broken(request, error), start)
        if isinstance(placed, Future):
            return self._answer_later(request, pending, placed, start)
        return self._finish(request, pending, placed, start)

    async def _answer_later(
        self, request: Request, pending: Pending, coming: Future[Placed], start: float
    ) -> bytes:
        self._waiting_bytes += len(request.body)
        try:
            placed = await self._arrival(coming)
        except Exception as error:  # noqa: BLE001 as above
            return self._end(request, broken(request, error), start)
        finally:
            self._waiting_bytes -= len(request.body)
        answer = self._finish(request, pending, placed, start)
        return answer if isinstance(answer, bytes) else await answer

    def _finish(self, request: Request, pending: Pending, placed: Placed, start: float) -> Answer:
        """Answer; if the pod is denied after its placement, release the reservation."""
        if not isinstance(placed, Placement):
            return self._end(request, Outcome.of(deny_unplaced(placed), pending.policy), start)
        budget = self._budget
        try:
            budget.since = NEW
            try:
                outcome = self.dispatcher.finish(request, pending, placed)
            finally:
                budget.since = None
        except OverrunError:
            return self._leave_to_worker(request.body, start, placed, overran=True)
        if outcome.injection is None:
            self._release(placed)
        return self._end(request, outcome, start)

    def _leave_to_worker(
        self, body: bytes, start: float, placed: Placement | None = None, *, overran: bool = False
    ) -> Answer:
        """Let a worker decide a review that may concern us; `placed` is its placement, if it has one."""
        # Under a debugger the interrupt can come as the work ends; what follows must never be interrupted.
        self._budget.since = None
        try:
            head = decode_head(body)
        except UnreadableReviewError:
            if placed is not None:
                self._release(placed)
            raise
        if overran:
            self._overruns.note(head.request.namespace, start)
        outcome = self.dispatcher.let_through(head)
        if outcome is None and self._workers is not None:
            return self._answer_by_worker(self._workers, head, placed, start)
        if placed is not None:
            self._release(placed)
        return self._end(head.request, outcome or undecided(head, TOO_COSTLY), start)

    async def _answer_by_worker(
        self, workers: Workers, head: Head, placed: Placement | None, start: float
    ) -> bytes:
        request, promised, outcome = head.request, Promised(placed), None
        seconds = start + DECIDE_SECONDS - perf_counter()
        try:
            decided = await workers.decide(
                request, self.dispatcher, partial(self._promise, promised), seconds
            )
            outcome = self._outcome(head, decided)
        except UndecidedError as error:
            outcome = undecided(head, error.denial, error.error)
        except Exception as error:  # noqa: BLE001 as above
            outcome = broken(request, error)
        finally:
            if promised.placement is not None and (outcome is None or outcome.injection is None):
                self._release(promised.placement)
        return self._end(request, outcome, start)

    def _outcome(self, head: Head, decided: Decided | Unplaced) -> Outcome:
        resolved = self.dispatcher.resolved(head)
        policy = resolved.policy if resolved is not None else None
        if isinstance(decided, Decided):
            return decided.outcome(policy)
        return Outcome.of(deny_unplaced(decided), policy)

    async def _promise(self, promised: Promised, request: PlacementRequest) -> Placed:
        """Return a worker's placement, and record it as promised."""
        if promised.placement is not None:
            return promised.placement
        placed = self._placer.place(request)
        if isinstance(placed, Future):
            placed = await self._arrival(placed)
        if isinstance(placed, Placement):
            promised.placement = placed
        return placed

    async def _arrival(self, coming: Future[Placed]) -> Placed:
        """Wait for a placement; release one that arrives after the wait was cancelled."""
        try:
            return await shield(coming)
        except CancelledError:
            if coming.cancelled():
                return _CANCELLED
            coming.add_done_callback(self._release_unused)
            raise

    def _release_unused(self, coming: Future[Placed]) -> None:
        if not coming.cancelled() and coming.exception() is None:
            placed = coming.result()
            if isinstance(placed, Placement):
                self._release(placed)

    def _release(self, placement: Placement) -> None:
        if placement.reservation is not None:
            self._placer.release(placement.reservation)

    def _end(self, request: Request, outcome: Outcome, start: float) -> bytes:
        reply = _reply(request, outcome)
        self._observe(request, outcome, perf_counter() - start)
        return reply


class Promised:
    """The placement promised to a review that a worker decides."""

    def __init__(self, placement: Placement | None) -> None:
        self.placement = placement


def _reply(request: Request, outcome: Outcome) -> bytes:
    if outcome.denial is not None:
        return deny(request, outcome.denial)
    degraded = outcome.injection is not None and outcome.injection.placement.degraded
    return allow(request, outcome.reason, outcome.patch, "degraded" if degraded else None)
