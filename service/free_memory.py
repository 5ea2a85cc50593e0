"""Gives memory back to the system that is free, but that malloc keeps.

The buffers of a flood of connections lie between blocks that live longer: when they are free, a process has
three to five times what it uses, and keeps it. A malloc that maps each large block by itself does not do so,
but then every review of 200 kB costs twice its time.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

from service.limits import MIB

_LOOK_SECONDS = 2
_MUCH = 32 * MIB
"""More would take longer at once: 275 MiB have taken 170 ms."""
_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def give_back() -> None:
    """Give back whatever is free; nothing happens where malloc cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class FreeMemory:
    """Gives back when the process has grown by much since it last did."""

    def __init__(
        self, resident: Callable[[], int] = resident, give_back: Callable[[], None] = give_back
    ) -> None:
        self._resident = resident
        self._give_back = give_back
        self._least = resident()

    def look(self) -> None:
        """Give back if that may be worth it."""
        now = self._resident()
        if now > self._least + _MUCH:
            self._give_back()
            now = self._least = self._resident()
        self._least = min(self._least, now)


async def keep_giving_back() -> None:
    """Look for ever."""
    memory = FreeMemory()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        memory.look()
