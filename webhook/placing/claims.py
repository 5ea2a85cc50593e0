"""Pods that get a claim: the controller makes its template before the pod is admitted.

There is no fallback: without the controller nobody knows whether the template exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec

from ledger.messages import MAX_ASKS, MAX_ASKS_BYTES, MAX_REQUEST_BYTES, Answered, Batch, write_request
from ledger.placement_request import PlacementRequest
from webhook.admission.denial import Reason
from webhook.placing.client import ControllerClient, UnknownPathError
from webhook.placing.placer import Placed, Unanswered

DEADLINE_SECONDS = 3.0
"""For each request, from its creation: the controller writes to the API server."""
_AWAY = "the controller, which makes the claims of pods, cannot be reached: try again"
_OLDER = "the controller is older than this webhook and makes no claims: try again when it is upgraded"


@dataclass(frozen=True, slots=True)
class _Waiting:
    body: bytes
    """The request as JSON."""
    answered: asyncio.Future[Placed]
    deadline: float
    pending: list[str]
    """Why the controller had no answer at the last time, if it had none."""


class ClaimPlacer:
    """Sends requests for claims in batches, over their own connection: other pods do not wait for them."""

    def __init__(self, client: ControllerClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._some = asyncio.Event()

    def place(self, request: PlacementRequest) -> asyncio.Future[Placed]:
        """Return the leader's result, or after 3 s why there is none."""
        answered: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        body = write_request(request)
        if len(body) > MAX_REQUEST_BYTES:
            why = (
                f"what the pod demands of its node takes {len(body)} bytes: label the nodes, and select that"
            )
            answered.set_result(Unanswered(Reason.MANY_DEMANDS, why))
            return answered
        waiting = _Waiting(body, answered, self._clock() + DEADLINE_SECONDS, [])
        asyncio.get_running_loop().call_later(DEADLINE_SECONDS, _give_up, waiting)
        self._waiting.append(waiting)
        self._some.set()
        return answered

    async def send_batches(self) -> None:
        """Send what waits, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while batch := self._take():
                await self._send(batch)

    def _take(self) -> list[_Waiting]:
        self._waiting = [each for each in self._waiting if not each.answered.done()]
        sizes = accumulate(len(each.body) for each in self._waiting[:MAX_ASKS])
        at_once = sum(size <= MAX_ASKS_BYTES for size in sizes)
        batch, self._waiting = self._waiting[:at_once], self._waiting[at_once:]
        return batch

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        asks = [msgspec.Raw(waiting.body) for waiting in batch]
        try:
            latest = max(waiting.deadline for waiting in batch)
            async with asyncio.timeout(max(0.0, latest - self._clock())):
                answers = (await self._client.claim(Batch(asks))).answers
            placed = [_placed(answered) for answered in answers]
            if len(placed) != len(batch):
                raise ValueError("another number of answers than of requests")  # noqa: TRY301 one way out
        except (OSError, ValueError, TimeoutError, RecursionError) as error:
            self._client.drop()
            why = _OLDER if isinstance(error, UnknownPathError) else _AWAY
            placed = [Unanswered(Reason.NO_CONTROLLER, why) for _ in batch]
        for waiting, result in zip(batch, placed, strict=True):
            if isinstance(result, str):
                waiting.pending[:] = [result]
                self._waiting.append(waiting)
            elif not waiting.answered.done():
                waiting.answered.set_result(result)


def _give_up(waiting: _Waiting) -> None:
    """Answer a request at its deadline, with what the controller waits for."""
    if not waiting.answered.done():
        reason = Reason.CLAIM_TEMPLATE if waiting.pending else Reason.NO_CONTROLLER
        waiting.answered.set_result(Unanswered(reason, waiting.pending[-1] if waiting.pending else _AWAY))


def _placed(answered: Answered) -> Placed | str:
    """Return the result of a request, or why there is none yet."""
    if answered.pending is not None:
        return answered.pending
    if answered.refused is not None:
        return Unanswered(Reason.CLAIM_TEMPLATE, answered.refused)
    return answered.answer()
