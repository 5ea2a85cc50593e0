"""Checks before a share is allocated, and again before each start of its container."""

from __future__ import annotations

import asyncio

from agent.driver_limits import DriverLimits
from agent.limiter_library import LibraryError, LimiterLibrary
from agent.shares import RefusedError


class BeforeUse:
    """Makes sure that the files on the node that limit a container are unchanged."""

    def __init__(self, library: LimiterLibrary, driver: DriverLimits | None) -> None:
        self._library = library
        self._driver = driver
        self._checking = asyncio.Lock()
        """Two checks at once would restore the same file."""

    async def check(self) -> None:
        """Return once everything is as this agent knows it.

        Raises:
            RefusedError: it is not, and cannot be restored.
        """
        try:
            async with self._checking:
                await asyncio.to_thread(self._library.check)
                if self._driver is not None:
                    await asyncio.to_thread(self._driver.put_back)
        except LibraryError as error:
            raise RefusedError(str(error)) from error
        except OSError as error:
            raise RefusedError(f"{error.filename} cannot be written: {error.strerror}") from error
