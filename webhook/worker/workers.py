"""Decides reviews in workers: a limited number at once, each within limits of CPU, memory and time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from ledger.placement_request import Placement, PlacementRequest
from webhook.admission.denial import Denial, Reason
from webhook.admission_request import Request
from webhook.dispatch import TOO_COSTLY, Dispatcher
from webhook.inline_budget import InlineBudget
from webhook.placing.placer import Placed, Unplaced
from webhook.worker.child import decide
from webhook.worker.limits import AT_ONCE, MAX_WAITING, MAX_WAITING_BYTES, cpu_seconds
from webhook.worker.messages import Ask, Decided, framed, read_step
from webhook.worker.process import Ended, EndedError, ProtocolError, WorkerProcess
from webhook.worker.slots import FullError, Slots

if TYPE_CHECKING:
    # `explain` reviews without workers, and does not load the client library of Prometheus.
    from webhook.metrics import WorkerEnd, WorkerMetrics

BUSY = Denial.of(
    Reason.BUSY, "the injector is busy with other large or costly pods: try again in a few seconds"
)
Place = Callable[[PlacementRequest], Awaitable[Placed]]


class UndecidedError(Exception):
    """A review got no decision: the denial for its author, and the error for the admin if it is a fault."""

    def __init__(self, denial: Denial, error: str | None = None) -> None:
        super().__init__(denial.message)
        self.denial = denial
        self.error = error


class Workers:
    """Forks workers of this process, and ends each."""

    def __init__(self, metrics: WorkerMetrics) -> None:
        self.budget = InlineBudget()
        """For reviews that the event loop decides itself; a review that exceeds it is left to a worker."""
        self._metrics = metrics
        self._slots = Slots(AT_ONCE, MAX_WAITING, MAX_WAITING_BYTES)
        self._ending: set[asyncio.Task[Ended]] = set()

    async def decide(
        self, request: Request, dispatcher: Dispatcher, place: Place, seconds: float
    ) -> Decided | Unplaced:
        """Return a worker's decision, or the result of `place` if that is not a placement.

        Args:
            request: its body is decided; only uid and namespace of the rest are read here.
            dispatcher: decides it, in the worker.
            place: requests a placement; called at most once.
            seconds: how long the caller waits, including the wait for a worker.

        Raises:
            UndecidedError: there was no worker, or it ended before it had decided.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire(request.namespace, len(request.body))
                decided = await self._decide(request, dispatcher, place)
        except (FullError, TimeoutError) as error:
            raise self._undecided("busy", BUSY) from error
        self._metrics.reviews["decided"].inc()
        return decided

    async def gone(self) -> None:
        """Wait until all workers whose reviews have ended are cleaned up."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _decide(self, request: Request, dispatcher: Dispatcher, place: Place) -> Decided | Unplaced:
        """Decide in a worker; its slot becomes free when it has ended."""
        body = request.body
        try:
            worker = WorkerProcess(partial(decide, body=body, dispatcher=dispatcher), cpu_seconds(len(body)))
        except (OSError, MemoryError) as error:
            self._slots.release()
            raise self._undecided("failed", BUSY, f"cannot start a worker: {error}") from error
        try:
            return await _converse(worker, place)
        except EndedError as error:
            raise await self._failed(request, worker, error) from error
        finally:
            ending = worker.end()
            self._ending.add(ending)
            ending.add_done_callback(self._ended)

    async def _failed(self, request: Request, worker: WorkerProcess, error: EndedError) -> UndecidedError:
        number = (await asyncio.shield(worker.end())).signal
        if number == signal.SIGPROF:
            return self._undecided("over-budget", TOO_COSTLY)
        was_killed = number and not isinstance(error, ProtocolError)
        why = signal.Signals(number).name if was_killed else str(error)
        text = f"internal error (its worker ended) in review {request.uid}: try again or tell your admin"
        return self._undecided("failed", Denial.of(Reason.INTERNAL, text), f"worker ended: {why}")

    def _undecided(self, end: WorkerEnd, denial: Denial, error: str | None = None) -> UndecidedError:
        self._metrics.reviews[end].inc()
        return UndecidedError(denial, error)

    def _ended(self, ending: asyncio.Task[Ended]) -> None:
        self._ending.discard(ending)
        self._slots.release()
        if not ending.cancelled() and ending.exception() is None:
            self._metrics.cpu_seconds.inc(ending.result().cpu_seconds)


async def _converse(worker: WorkerProcess, place: Place) -> Decided | Unplaced:
    """Return what a worker decides; give it a placement if it requests one."""
    step = await _step(worker)
    if isinstance(step, Decided):
        return step
    placed = await place(step.request)
    if not isinstance(placed, Placement):
        return placed
    await worker.send(framed(placed))
    decided = await _step(worker)
    if not isinstance(decided, Decided):
        raise ProtocolError("it requested a second placement")
    return decided


async def _step(worker: WorkerProcess) -> Ask | Decided:
    message = await worker.receive()
    try:
        return read_step(message)
    except ValueError as error:
        raise ProtocolError(f"it sent an invalid message: {error}") from error
