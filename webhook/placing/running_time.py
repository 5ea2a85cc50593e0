"""Time limits that count only time in which this process runs.

A process without CPU reads its answers late. When it runs again, its timers are due before it has read
anything, so a limit by the clock would expire although the answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TICK_SECONDS = 0.1
"""However late a tick comes, it counts as this time. Between two ticks everything received is read."""


@asynccontextmanager
async def running_timeout(seconds: float) -> AsyncIterator[None]:
    """Limit the body to `seconds` in which this process runs.

    Raises:
        TimeoutError: the body took longer.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:

        async def count() -> None:
            for _ in range(round(seconds / TICK_SECONDS)):
                await asyncio.sleep(TICK_SECONDS)
            limit.reschedule(loop.time())

        counting = asyncio.ensure_future(count())
        try:
            yield
        finally:
            counting.cancel()
