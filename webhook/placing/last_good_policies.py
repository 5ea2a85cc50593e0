"""Gets the last good policies from the controller, for a webhook that starts with broken ones."""

from __future__ import annotations

import asyncio

from policies.loading.reload import LivePolicies
from policies.model.problems import PolicyError
from service.log import get_logger
from webhook.placing.client import ControllerClient

TIMEOUT_SECONDS = 2.0
"""For one attempt: during it, changes of the directory are not noticed."""


class LastGoodPolicies:
    """Tries until there is a set; a received set is parsed and checked like the directory's files."""

    def __init__(self, client: ControllerClient, policies: LivePolicies) -> None:
        self._client = client
        self._policies = policies
        self.failure: str | None = None
        """Why the last attempt got no set; None before the first attempt and after a success."""
        self._log = get_logger("policies")

    async def fetch(self) -> None:
        """Try once; each replica of the controller may have another set, or none."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                last_good = await self._client.policies()
            await asyncio.to_thread(self._policies.adopt, last_good.files)
        except (OSError, ValueError, TimeoutError, RecursionError, PolicyError) as error:
            before, self.failure = self.failure, f"{type(error).__name__}: {error}".splitlines()[0]
            if self.failure != before:
                self._log.warning("cannot get the last good policies from the controller", error=self.failure)
        else:
            self.failure = None
