"""The loop of the leader's tasks: step, heartbeat, pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol


class Leads(Protocol):
    """Anything that says whether this replica leads."""

    @property
    def leads(self) -> bool:
        """Whether this replica may write now."""


async def while_leading(
    leadership: Leads,
    step: Callable[[], Awaitable[None]],
    pause_seconds: float,
    heartbeat: Callable[[], None] = lambda: None,
) -> None:
    """Repeat step, `heartbeat` and pause until this replica no longer leads; an error in a step is raised."""
    while leadership.leads:
        await step()
        heartbeat()
        await asyncio.sleep(pause_seconds)
