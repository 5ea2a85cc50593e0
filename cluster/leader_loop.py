"""The loop that the leader's tasks share: a step, a sign of life, a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol


class Leads(Protocol):
    """Who knows whether this replica leads."""

    @property
    def leads(self) -> bool:
        """Whether this replica may write at this moment."""


async def while_leading(
    leadership: Leads,
    step: Callable[[], Awaitable[None]],
    pause_seconds: float,
    heartbeat: Callable[[], None] = lambda: None,
) -> None:
    """Take a step, call `heartbeat` and pause, until this replica no longer leads; a step's error ends it."""
    while leadership.leads:
        await step()
        heartbeat()
        await asyncio.sleep(pause_seconds)
