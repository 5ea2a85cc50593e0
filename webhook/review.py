"""One review from bytes to bytes: the small shell around the pure decision.

Pure code runs in the event loop: `webhook/admission/sizes.py` bounds what it may cost.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, shield
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

from ledger.placement_request import Placement
from webhook.admission.sizes import is_too_large
from webhook.admission_request import Request
from webhook.admission_review import allow, decode, decode_head, deny
from webhook.decision import Outcome, Pending, deny_unplaced
from webhook.dispatch import Dispatcher, broken
from webhook.placing.placer import Placed, Placer
from webhook.policy_resolver import Policies
from webhook.rules import Rules

Observer = Callable[[Request, Outcome, float], None]
"""Called for each decision, with the seconds it took."""
Answer = bytes | Coroutine[Any, Any, bytes]


class Reviewer:
    """Decides reviews under the current policies."""

    def __init__(
        self, policies: Callable[[], Policies], rules: Rules, placer: Placer, observe: Observer
    ) -> None:
        self._dispatcher = Dispatcher(policies, rules)
        self._placer = placer
        self._observe = observe

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview; wait for the ledger if necessary.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        answer = self.answer(body)
        return answer if isinstance(answer, bytes) else await answer

    def answer(self, body: bytes) -> Answer:
        """Answer at once, or return a coroutine that answers; raises as `review` does."""
        start = perf_counter()
        if is_too_large(body):
            head = decode_head(body)
            return self._end(head.request, self._dispatcher.decide_by_head(head), start)
        request = decode(body)
        begun = self._dispatcher.begin(request)
        if isinstance(begun, Outcome):
            return self._end(request, begun, start)
        try:
            placed = self._placer.place(begun.request)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is never admitted unchanged
            return self._end(request, broken(request, error), start)
        if isinstance(placed, Future):
            return self._answer_later(request, begun, placed, start)
        return self._finish(request, begun, placed, start)

    async def _answer_later(
        self, request: Request, pending: Pending, coming: Future[Placed], start: float
    ) -> bytes:
        try:
            placed = await self._arrival(coming)
        except Exception as error:  # noqa: BLE001 as above
            return self._end(request, broken(request, error), start)
        return self._finish(request, pending, placed, start)

    def _finish(self, request: Request, pending: Pending, placed: Placed, start: float) -> bytes:
        """Answer; if the pod is denied after its placement, release the reservation."""
        if not isinstance(placed, Placement):
            return self._end(request, Outcome.of(deny_unplaced(placed), pending.policy), start)
        outcome = self._dispatcher.finish(request, pending, placed)
        if outcome.injection is None:
            self._release(placed)
        return self._end(request, outcome, start)

    async def _arrival(self, coming: Future[Placed]) -> Placed:
        """Wait for a placement; release one that arrives after the wait was cancelled."""
        try:
            return await shield(coming)
        except CancelledError:
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


def _reply(request: Request, outcome: Outcome) -> bytes:
    if outcome.denial is not None:
        return deny(request, outcome.denial)
    degraded = outcome.injection is not None and outcome.injection.placement.degraded
    return allow(request, outcome.reason, outcome.patch, "degraded" if degraded else None)
