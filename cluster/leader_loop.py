"""The loop of the leader's tasks: step, heartbeat, pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cluster.leadership import Leadership
from service.background import beat
from service.log import get_logger

BUDGET_SECONDS = 60.0
"""Maximum duration of a step. Its requests may be slow; what it missed, a later step does."""
STEP_SECONDS = 2 * BUDGET_SECONDS
"""Maximum time between two heartbeats of a task: a step without a request, and a pause of at most as long."""

_log = get_logger("leader")


async def while_leading(
    leadership: Leadership, step: Callable[[], Awaitable[None]], pause_seconds: float
) -> None:
    """Repeat step, heartbeat and pause until this replica no longer leads; an error in a step is raised.

    A step is cancelled after BUDGET_SECONDS, and the loop goes on.
    """
    while leadership.leads:
        try:
            async with asyncio.timeout(BUDGET_SECONDS) as budget:
                await step()
        except TimeoutError:
            if not budget.expired():
                raise
            _log.warning("a step took too long and is cut off", step=getattr(step, "__qualname__", ""))
        beat()
        await asyncio.sleep(pause_seconds)
