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
        self._failure: str | None = None
        self._log = get_logger("policies")

    @property
    def failure(self) -> str | None:
        """Why the last attempt got no set; None before the first attempt and after a success."""
        return self._failure

    async def fetch(self) -> None:
        """Try once; each replica of the controller may have another set, or none."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                last_good = await self._client.policies()
            await asyncio.to_thread(self._policies.adopt, last_good.files)
        except (OSError, ValueError, TimeoutError, RecursionError, PolicyError) as error:
            self._report(f"{type(error).__name__}: {error}".splitlines()[0])
        else:
            self._failure = None

    def _report(self, failure: str) -> None:
        """Log a failure once, until the reason changes."""
        if failure != self._failure:
            self._log.warning("cannot get the last good policies from the controller", error=failure)
        self._failure = failure
