"""What a webhook does that starts on broken policies: it asks the controller for the last good set."""

from __future__ import annotations

import asyncio

from policies.loading.reload import LivePolicies
from policies.model.problems import PolicyError
from service.log import get_logger
from webhook.placing.client import ControllerClient

TIMEOUT_SECONDS = 2.0
"""For one try: meanwhile nobody looks whether the directory was mended."""


class LastGoodPolicies:
    """Asks until there is a set; what comes is read and checked here, as if it had stood in the directory."""

    def __init__(self, client: ControllerClient, policies: LivePolicies) -> None:
        self._client = client
        self._policies = policies
        self._failure: str | None = None
        self._log = get_logger("policies")

    @property
    def failure(self) -> str | None:
        """Why the last try gave no set; None before the first, and once there is one."""
        return self._failure

    async def fetch(self) -> None:
        """Try once; each replica of the controller may know another set, or none."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                handed = await self._client.policies()
            await asyncio.to_thread(self._policies.adopt, handed.files)
        except (OSError, ValueError, TimeoutError, RecursionError, PolicyError) as error:
            self._report(f"{type(error).__name__}: {error}".splitlines()[0])
        else:
            self._failure = None

    def _report(self, failure: str) -> None:
        """Say once what goes wrong, until it is something else."""
        if failure != self._failure:
            self._log.warning("the controller gives no older policies", error=failure)
        self._failure = failure
