"""Reports denials to the controller, for its page: counts, and the last message of each reason.

A review only increments a count. Reports that cannot be sent at once are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ledger.messages import MAX_DENIAL_LINE, MAX_DENIALS, DenialCount, DenialReport
from webhook.admission.denial import Denial
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.placing.client import ControllerClient

PERIOD_SECONDS = 3.0
"""Between two reports."""
TIMEOUT_SECONDS = 2.0

_NOTHING = DenialCount("", "", 0, "")
Sleep = Callable[[float], Awaitable[None]]


def denial_count(request: Request, denial: Denial) -> DenialCount:
    """Return the count of one denial."""
    return DenialCount(denial.reason.value, request.namespace, 1, denial.message[:MAX_DENIAL_LINE])


class DenialReports:
    """Counts denials and reports them to the leader; give it to the reviewer as an observer."""

    def __init__(self, client: ControllerClient, sleep: Sleep = asyncio.sleep) -> None:
        """`client` is used for nothing else: a report must not delay a placement request."""
        self._client = client
        self._sleep = sleep
        self._counted: dict[tuple[str, str], DenialCount] = {}
        self._some = asyncio.Event()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Count one decision, if it is a denial and not a dry run."""
        if outcome.denial is None or request.dry_run:
            return
        key = (outcome.reason.value, request.namespace)
        before = self._counted.get(key, _NOTHING)
        if before is _NOTHING and len(self._counted) >= MAX_DENIALS:
            return
        one = denial_count(request, outcome.denial)
        self._counted[key] = DenialCount(one.reason, one.namespace, before.pods + 1, one.message)
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
        report = DenialReport(list(self._counted.values()))
        self._counted.clear()
        self._some.clear()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.report(report)
        except (OSError, ValueError, TimeoutError, RecursionError):
            # The placer reports that the controller is away.
            self._client.drop()
