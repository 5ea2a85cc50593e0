"""What is checked before a share is given, and again before each start of its container."""

from __future__ import annotations

import asyncio

from agent.driver_limits import DriverLimits
from agent.limiter_library import LibraryError, LimiterLibrary
from agent.policy import PolicyWatch
from agent.shares import RefusedError

CONFIRM_SECONDS = 20.0
"""To compile a policy takes one or two; the kubelet gives the check before a container's start 30."""


class BeforeUse:
    """Makes sure that nobody changed on the node what holds a container to its share.

    Args:
        policy: must have been compiled since the agent's start.
        library: of the limiter.
        driver: holds shares too; None where it does not.
    """

    def __init__(self, policy: PolicyWatch, library: LimiterLibrary, driver: DriverLimits | None) -> None:
        self._policy = policy
        self._library = library
        self._driver = driver
        self._checking = asyncio.Lock()
        """Two that put a file back at once would write into one another's."""

    async def check(self) -> None:
        """Return once all is as this agent knows it.

        Raises:
            RefusedError: it is not, and cannot be put right.
        """
        if not await self._policy.is_confirmed(CONFIRM_SECONDS):
            raise RefusedError("the policies of this node's agent do not compile: its log says why")
        try:
            async with self._checking:
                await asyncio.to_thread(self._library.check)
                if self._driver is not None:
                    await asyncio.to_thread(self._driver.put_back)
        except LibraryError as error:
            raise RefusedError(str(error)) from error
        except OSError as error:
            raise RefusedError(f"{error.filename} cannot be written: {error.strerror}") from error
