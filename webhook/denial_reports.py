"""Reports denials to the controller, for its page: the objects, and the last message of each reason.

A review only notes its object. Reports that cannot be sent at once are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ledger.denial_counts import DenialWindow
from ledger.messages import MAX_DENIAL_LINE, MAX_DENIALS, DenialReport, Denied
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.placing.client import ControllerClient

PERIOD_SECONDS = 3.0
"""Between two reports."""
TIMEOUT_SECONDS = 2.0

Sleep = Callable[[float], Awaitable[None]]


def denied_of(request: Request, outcome: Outcome) -> Denied | None:
    """Return what a review denied; None if it denied nothing, or was a dry run."""
    denial = outcome.denial
    if denial is None or request.dry_run:
        return None
    message = denial.message[:MAX_DENIAL_LINE]
    return Denied(denial.reason.value, request.namespace, message, request.object_key())


class DenialReports:
    """Reports denials to the leader; give it to the reviewer as an observer."""

    def __init__(self, client: ControllerClient, sleep: Sleep = asyncio.sleep) -> None:
        """`client` is used for nothing else: a report must not delay a placement request."""
        self._client = client
        self._sleep = sleep
        self._window = DenialWindow(MAX_DENIALS)
        self._some = asyncio.Event()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Note what one decision denied."""
        if (denied := denied_of(request, outcome)) is not None:
            self._window.add(denied, 0.0)
            self._some.set()

    async def run(self) -> None:
        """Report denials to the leader whenever there are some, at most every three seconds."""
        try:
            while True:
                await self._some.wait()
                await self._report()
                await self._sleep(PERIOD_SECONDS)
        finally:
            await self._client.close()

    async def _report(self) -> None:
        report = DenialReport(self._window.take())
        self._some.clear()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.report(report)
        except (OSError, ValueError, TimeoutError, RecursionError):
            # The placer reports that the controller is away.
            self._client.drop()
