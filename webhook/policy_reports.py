"""Reports to the controller which policies this webhook serves, so that an admin can see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ledger.messages import ServedPolicies
from webhook.placing.client import ControllerClient, UnknownPathError

PERIOD_SECONDS = 3.0
"""Between two reports; the leader forgets a webhook that misses several."""
TIMEOUT_SECONDS = 2.0
OLDER_SECONDS = 300.0
"""Pause after a controller turned out to be too old for reports."""

Sleep = Callable[[float], Awaitable[None]]


class PolicyReports:
    """Reports to the leader every few seconds, as long as the process runs.

    Args:
        client: used for nothing else: a report must not delay a placement request.
        webhook: the name of this replica.
        digest: returns the digest of the policies in force; None while there are none.
        sleep: replaced only in tests.
    """

    def __init__(
        self,
        client: ControllerClient,
        webhook: str,
        digest: Callable[[], str | None],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._webhook = webhook
        self._digest = digest
        self._sleep = sleep

    async def run(self) -> None:
        """Report until cancelled; the next report replaces one that failed."""
        while True:
            await self._sleep(await self._report())

    async def _report(self) -> float:
        """Report once; return the seconds until the next report."""
        served = ServedPolicies(self._webhook, self._digest() or "")
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.report_policies(served)
        except UnknownPathError:
            self._client.drop()
            return OLDER_SECONDS
        except (OSError, ValueError, TimeoutError, RecursionError):
            # The placer reports that the controller is away.
            self._client.drop()
        return PERIOD_SECONDS
