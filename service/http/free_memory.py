"""Returns free memory that malloc keeps to the system.

The buffers of a flood of connections lie between longer-lived blocks. After they are freed, a process keeps
three to five times what it uses. A malloc that maps each large block separately avoids this, but then every
review of 200 kB takes twice as long.
"""

from __future__ import annotations

import asyncio
import ctypes

_PERIOD_SECONDS = 60


def give_back() -> None:
    """Return all free memory; does nothing if malloc cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def keep_giving_back() -> None:
    """Return free memory every minute, until cancelled."""
    while True:
        await asyncio.sleep(_PERIOD_SECONDS)
        give_back()
