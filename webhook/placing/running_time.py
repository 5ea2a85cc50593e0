"""Time limits that count only time in which this process runs.

A process without CPU reads its answers late. When it runs again, its timers are due before it has read
anything, so a limit by the clock would expire although the answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

TICK_SECONDS = 0.1
"""However late a tick comes, it counts as this time. Between two ticks everything received is read."""


@asynccontextmanager
async def running_timeout(seconds: float, on_tick: Callable[[], None] | None = None) -> AsyncIterator[None]:
    """Limit the body to `seconds` in which this process runs; call `on_tick` at each tick.

    Raises:
        TimeoutError: the body took longer.
    """
    loop = asyncio.get_running_loop()
    left = round(seconds / TICK_SECONDS)
    async with asyncio.timeout(None) as limit:

        def tick() -> None:
            nonlocal left
            left -= 1
            if on_tick is not None:
                on_tick()
            if left > 0:
                timers[:] = [loop.call_later(TICK_SECONDS, tick)]
            else:
                limit.reschedule(loop.time())

        timers = [loop.call_later(TICK_SECONDS, tick)]
        try:
            yield
        finally:
            timers[0].cancel()
