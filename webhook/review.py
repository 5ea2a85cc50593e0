"""One review from bytes to bytes: the small shell around the pure decision.

Pure code runs in the event loop: `webhook/admission/sizes.py` bounds what it may cost.
"""

from __future__ import annotations

import traceback
from asyncio import CancelledError, Future, shield
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from ledger.placement_request import Placement
from policies.loading.policy_set import PolicySet
from policies.loading.reload import NoPoliciesError
from webhook.admission.denial import Denial, Reason
from webhook.admission_request import Request
from webhook.admission_review import allow, decode, deny
from webhook.decision import Outcome, deny_unplaced
from webhook.placing.placer import Placed, Placer
from webhook.rules import Rules

Observer = Callable[[Request, Outcome, float], None]
"""Called for each decision, with the seconds it took."""
NO_POLICIES = "the injector started with broken policies: ask the admin to fix them, see /readyz"


class Reviewer:
    """Decides reviews under the current policies."""

    def __init__(
        self, policies: Callable[[], PolicySet], rules: Rules, placer: Placer, observe: Observer
    ) -> None:
        self._policies = policies
        self._rules = rules
        self._placer = placer
        self._observe = observe

    async def review(self, body: bytes) -> bytes:
        """Answer one AdmissionReview; wait for the ledger if necessary.

        Raises:
            UnreadableReviewError: there is no request to answer.
        """
        start = perf_counter()
        request = decode(body)
        try:
            outcome = await self._outcome(request)
        except NoPoliciesError:
            outcome = Outcome.of(Denial.of(Reason.NO_POLICIES, NO_POLICIES), None)
        except Exception as error:  # noqa: BLE001 whatever breaks, a labelled pod is never admitted unchanged
            outcome = _broken(request, error)
        reply = _reply(request, outcome)
        self._observe(request, outcome, perf_counter() - start)
        return reply

    async def _outcome(self, request: Request) -> Outcome:
        begun = self._rules.decide(request, self._policies)
        if isinstance(begun, Outcome):
            return begun
        placed = self._placer.place(begun.request)
        if isinstance(placed, Future):
            placed = await self._arrival(placed)
        if not isinstance(placed, Placement):
            return Outcome.of(deny_unplaced(placed), begun.policy)
        is_injected = False
        try:
            outcome = Outcome.of(begun.finish(placed), begun.policy)
            is_injected = outcome.injection is not None
        finally:
            if not is_injected:
                self._release(placed)
        return outcome

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


def _broken(request: Request, error: Exception) -> Outcome:
    """Deny without text of the pod: only the type of the error and its line of code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    text = f"internal error ({type(error).__name__}) in review {request.uid}: try again or tell your admin"
    return Outcome(Reason.INTERNAL, denial=Denial.of(Reason.INTERNAL, text), error=place)


def _reply(request: Request, outcome: Outcome) -> bytes:
    if outcome.denial is not None:
        return deny(request, outcome.denial)
    degraded = outcome.injection is not None and outcome.injection.placement.degraded
    return allow(request, outcome.reason, outcome.patch, "degraded" if degraded else None)
