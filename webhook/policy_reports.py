"""What the controller is told of the policies that this webhook serves, so that an admin learns of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ledger.messages import ServedPolicies
from webhook.placing.client import ControllerClient, UnknownPathError

PERIOD_SECONDS = 3.0
"""Between two reports; the leader forgets a webhook that is silent for some of them."""
TIMEOUT_SECONDS = 2.0
OLDER_SECONDS = 300.0
"""How long a controller is left alone that is too old to be told."""

Sleep = Callable[[float], Awaitable[None]]


class PolicyReports:
    """Tells the leader every few seconds, for as long as the process runs.

    Args:
        client: of its own: a report must not keep an ask waiting.
        webhook: the name that this replica is known by.
        digest: gives the digest of the policies in force; None while there are none.
        sleep: replaced in tests only.
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
        """Tell until cancelled; what cannot be told is told with the next report."""
        while True:
            await self._sleep(await self._report())

    async def _report(self) -> float:
        """Tell once; return the seconds until the next time."""
        told = ServedPolicies(self._webhook, self._digest() or "")
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.tell_policies(told)
        except UnknownPathError:
            self._client.drop()
            return OLDER_SECONDS
        except (OSError, ValueError, TimeoutError, RecursionError):
            # Whoever needs to know that the controller is away learns it from the placer.
            self._client.drop()
        return PERIOD_SECONDS
