"""Returns free memory that malloc keeps to the system.

The buffers of a flood of connections lie between longer-lived blocks. After they are freed, a process keeps
three to five times what it uses. A malloc that maps each large block separately avoids this, but then every
review of 200 kB takes twice as long.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

from service.http.limits import MIB

_CHECK_SECONDS = 2
_MUCH = 32 * MIB
"""Returning more takes long at once: 275 MiB took 170 ms."""
_CHECKS, _MAX_CHECKS = 8, 32
"""Checks until memory above the minimum is tried again; each time without success, twice as many."""
_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process that are resident; 0 if the system does not report them."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def give_back() -> None:
    """Return all free memory; does nothing if malloc cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class FreeMemory:
    """Returns memory when a process has grown a lot, and again later, when a flood has freed what it used."""

    def __init__(
        self, resident: Callable[[], int] = resident, give_back: Callable[[], None] = give_back
    ) -> None:
        self._resident = resident
        self._give_back = give_back
        self._least = self._last = resident()
        self._wait = self._checks_left = _CHECKS

    def check(self) -> None:
        """Return memory if that may be worth it."""
        now = self._resident()
        self._least, self._last = min(self._least, now), min(self._last, now)
        self._checks_left -= 1
        is_due = now > self._least + _MUCH and self._checks_left <= 0
        if now > self._last + _MUCH or is_due:
            self._give_back()
            self._last = self._resident()
            was_worth_it = now - self._last > _MUCH // 4
            self._wait = _CHECKS if was_worth_it else min(2 * self._wait, _MAX_CHECKS)
            self._checks_left = self._wait


async def keep_giving_back() -> None:
    """Check every two seconds whether memory can be given back, until cancelled."""
    memory = FreeMemory()
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        memory.check()
