"""Keeps a named loop going: when it fails, that is logged, and it begins again after a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.retry import Backoff
from service.log import get_logger

_log = get_logger("supervision")


async def supervise(
    name: str,
    loop: Callable[[], Awaitable[None]],
    on_failure: Callable[[], None],
    backoff: Backoff | None = None,
) -> None:
    """Run `loop` until it returns; whenever it raises, call `on_failure` and run it again after a pause."""
    backoff = backoff or Backoff(first_seconds=0.5)
    while True:
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 one loop's trouble must not end the others
            on_failure()
            seconds = backoff.next()
            text = f"{type(error).__name__}: {error}"
            _log.error("a loop broke", loop=name, error=text, again_in=round(seconds, 2))
            await asyncio.sleep(seconds)
        else:
            return
