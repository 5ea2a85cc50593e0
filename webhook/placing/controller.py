"""Placement by the controller: requests are sent in batches.

| the controller | its pods are placed |
|---|---|
| refuses or breaks the connection, or sends what is no answer | without it, at once |
| has not answered a batch for SILENT_SECONDS, as if it were stopped | without it, all that wait |
| is slow | by it |
| has no template for a claim yet | by it: asked again; after LONGEST_SECONDS the pod is denied |

A controller that did not answer is asked again in the background; until it answers, no pod waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from ledger.messages import (
    MAX_ASKS,
    MAX_ASKS_BYTES,
    MAX_RELEASES,
    MAX_REQUEST_BYTES,
    Answered,
    Batch,
    write_request,
)
from ledger.placement_request import Placement, PlacementRequest
from service.log import get_logger
from service.yielding import TimeSlice
from webhook.admission.denial import Reason
from webhook.placing.client import ControllerClient
from webhook.placing.fallback import Fallback
from webhook.placing.placer import Placed, Unanswered
from webhook.placing.running_time import running_timeout

SILENT_SECONDS = 2.0
"""For a batch. A controller that gets little CPU answers within this time, one that is stopped does not. Only
time in which this process runs counts."""
LONGEST_SECONDS = 3.5
"""For the template of a claim, from the request's creation; an API server waits 5 s for its review."""
AWAY_SECONDS = 0.5
"""Between two batches to a controller that did not answer."""
LAST_ANSWER_SECONDS = 1.0
"""After LONGEST_SECONDS: until a claim is denied for its template though a repeated request hangs."""
PENDING_SECONDS = 0.1
"""Until a request that has no answer yet is repeated; other pods' batches go meanwhile."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: PlacementRequest
    body: bytes
    """The request as JSON."""
    answered: asyncio.Future[Placed]
    deadline: float


class ControllerPlacer:
    """Places pods with the leading controller, or without it from its last snapshot."""

    def __init__(
        self,
        client: ControllerClient,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._clock = clock
        self.fallback = Fallback(clock)
        """What is known without the controller."""
        self._waiting: list[_Waiting] = []
        """Requests without an answer; those of the batch that was sent are the first."""
        self._releases: list[str] = []
        self._some = asyncio.Event()
        self._answers = True
        self._log = get_logger("placer")
        self._up = Gauge(
            "fraction_injector_controller_answers",
            "1 if the controller answered when it was last asked, else 0.",
            registry=registry,
        )
        self._up.set(1)
        Gauge(
            "fraction_injector_snapshot_slices_allocated",
            "Allocated slices in the last controller snapshot, and of placements made since without it.",
            registry=registry,
        ).set_function(self.fallback.used)
        Gauge(
            "fraction_injector_snapshot_nodes",
            "Nodes in the last controller snapshot; 0 before the first.",
            registry=registry,
        ).set_function(self.fallback.nodes)

    def place(self, request: PlacementRequest) -> Placed | asyncio.Future[Placed]:
        """Return the leader's result; if it does not answer, a result from its last snapshot."""
        if not self._answers:
            return self.fallback.place(request)
        body = write_request(request)
        if len(body) > MAX_REQUEST_BYTES:
            return _too_large(len(body))
        answered: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        self._send_next(_Waiting(request, body, answered, self._clock() + LONGEST_SECONDS))
        return answered

    def release(self, reservation: str) -> None:
        """Release a reservation with the next batch; a reservation that is not released expires."""
        self.fallback.release(reservation)
        if len(self._releases) < MAX_RELEASES:
            self._releases.append(reservation)
            self._some.set()

    @property
    def state(self) -> str:
        """What places pods now, as a sentence for people."""
        if self._answers and self.fallback.is_known:
            return "the controller places"
        if self._answers:
            return "the controller has not sent its nodes yet"
        last = "the policies' assumptions"
        if self.fallback.is_known:
            last = f"its last snapshot, of {self.fallback.nodes()} nodes"
        return f"the controller does not answer: placing by {last}"

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the background tasks by name."""
        follow = partial(self.fallback.follow, self._client)
        return {"placement batches": self._send_batches, "controller snapshot": follow}

    async def _send_batches(self) -> None:
        try:
            while True:
                await self._next_occasion()
                await self._send_batch()
        finally:
            # The process stops and still answers reviews, or a fault ends this loop, which then starts again.
            self._answers = False
            self._client.drop()
            for waiting in self._waiting:
                self._place_without(waiting)
            self._waiting.clear()
            await self._client.close()

    async def _next_occasion(self) -> None:
        """Wait until there is something to send, or until an absent controller is asked again."""
        if not self._answers:
            await asyncio.sleep(AWAY_SECONDS)
            return
        while not self._waiting and not self._releases:
            self._some.clear()
            await self._some.wait()

    def _send_next(self, waiting: _Waiting) -> None:
        """Send a request with the next batch; place it without a controller that is away."""
        if self._answers:
            self._waiting.append(waiting)
            self._some.set()
        else:
            self._place_without(waiting)

    async def _send_batch(self) -> None:
        """Send one batch: what arrived while the last one was in progress."""
        batch = self._next_batch()
        releases, self._releases = self._releases, []
        asks = [msgspec.Raw(waiting.body) for waiting in batch]
        try:
            async with running_timeout(SILENT_SECONDS):
                answers = (await self._client.place(Batch(asks, releases))).answers
            answered = [*zip(batch, answers, strict=True)]
        except (OSError, ValueError, TimeoutError, RecursionError) as error:
            # The controller may have reserved for pods that are placed here.
            reserved = [name for each in batch if (name := each.request.accounting.reservation) is not None]
            self._releases = [*self._releases, *releases, *reserved][:MAX_RELEASES]
            await self._fail_over(error)
            return
        for waiting, answer in answered:
            self._deliver(waiting, answer)
        del self._waiting[: len(batch)]
        self._report(answers=True)

    def _next_batch(self) -> list[_Waiting]:
        """Return the requests that have waited longest: as many as fit into one body."""
        size = count = 0
        for waiting in self._waiting[:MAX_ASKS]:
            size += len(waiting.body)
            if size > MAX_ASKS_BYTES:
                break
            count += 1
        return self._waiting[:count]

    def _deliver(self, waiting: _Waiting, answered: Answered) -> None:
        placed, left = _placed(waiting.request, answered), waiting.deadline - self._clock()
        if answered.pending is not None and left > 0:
            loop = asyncio.get_running_loop()
            loop.call_later(PENDING_SECONDS, self._send_next, waiting)
            loop.call_later(left + LAST_ANSWER_SECONDS, _answer, waiting, placed)
            return
        # The controller has made a claim's template; for a dry run it makes none.
        if isinstance(placed, Placement) and waiting.request.accounting.reservation is not None:
            self.fallback.claims.note(waiting.request, placed)
        _answer(waiting, placed)

    async def _fail_over(self, error: Exception) -> None:
        """Place all waiting requests without the controller, and those that come until it answers.

        Hundreds may wait: other reviews are answered in between.
        """
        self._client.drop()
        self._report(answers=False, error=f"{type(error).__name__}: {error}")
        time_slice = TimeSlice()
        for waiting in self._waiting:
            self._place_without(waiting)
            await time_slice.pause()
        self._waiting.clear()

    def _place_without(self, waiting: _Waiting) -> None:
        if waiting.answered.done():
            return
        try:
            waiting.answered.set_result(self.fallback.place(waiting.request))
        except Exception as error:  # noqa: BLE001 - its review is denied; the others still need their answers
            waiting.answered.set_exception(error)

    def _report(self, *, answers: bool, **why: str) -> None:
        if answers == self._answers:
            return
        self._answers = answers
        self._up.set(answers)
        if answers:
            self._log.info("the controller answers again")
        else:
            self._log.warning("the controller does not answer: placing by its last snapshot", **why)


def _answer(waiting: _Waiting, placed: Placed) -> None:
    if not waiting.answered.done():
        waiting.answered.set_result(placed)


def _placed(request: PlacementRequest, answered: Answered) -> Placed:
    """Return one result, independent of the others in its batch."""
    no_claim = answered.refused or answered.pending
    if no_claim is not None and request.share.driver is not None:
        return Unanswered(Reason.CLAIM_TEMPLATE, no_claim)
    try:
        return answered.answer()
    except ValueError as error:
        return Unanswered(Reason.UNREADABLE, f"{error}: try again or tell your admin")


def _too_large(size: int) -> Unanswered:
    return Unanswered(
        Reason.MANY_DEMANDS,
        f"what the pod demands of its node takes {size} bytes, more than {MAX_REQUEST_BYTES}: label the"
        " nodes, and select that label",
    )
