"""What the controller is told of denials, for its page: counts, and the last line of each reason.

None of it is on the path of a review but a count. What cannot be told at once is forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ledger.messages import MAX_DENIAL_LINE, MAX_DENIALS, DenialCount, DenialReport
from webhook.admission.denial import Denial
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.placing.client import ControllerClient, UnknownPathError

PERIOD_SECONDS = 3.0
"""Between two reports."""
TIMEOUT_SECONDS = 2.0
OLDER_SECONDS = 300.0
"""How long a controller is left alone that is too old to be told."""

_NOTHING = DenialCount("", "", 0, "")
Sleep = Callable[[float], Awaitable[None]]


def denial_count(request: Request, denial: Denial) -> DenialCount:
    """Return the count of one denial."""
    return DenialCount(denial.reason.value, request.namespace, 1, denial.message[:MAX_DENIAL_LINE])


class DenialReports:
    """Counts denials and tells the leader; give it to the reviewer as an observer."""

    def __init__(self, client: ControllerClient, sleep: Sleep = asyncio.sleep) -> None:
        """`client` is of its own: a report must not keep an ask waiting."""
        self._client = client
        self._sleep = sleep
        self._counted: dict[tuple[str, str], DenialCount] = {}
        self._some = asyncio.Event()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Count one decision, if it is a denial and no dry run."""
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
        """Tell the leader whenever there is something to tell, at most every three seconds."""
        while True:
            await self._some.wait()
            await self._report()
            await self._sleep(PERIOD_SECONDS)

    async def _report(self) -> None:
        """Tell all that was counted, or forget it."""
        report = DenialReport(list(self._counted.values()))
        self._forget()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.report(report)
        except UnknownPathError:
            self._client.drop()
            await self._sleep(OLDER_SECONDS)
            self._forget()
        except (OSError, ValueError, TimeoutError, RecursionError):
            # Whoever needs to know that the controller is away learns it from the placer.
            self._client.drop()

    def _forget(self) -> None:
        self._counted.clear()
        self._some.clear()
