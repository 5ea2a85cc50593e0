"""The CPU that recent pods requested per slice, and the slices that one milli-CPU serves by that."""

from __future__ import annotations

from ledger.placement.packing import UNIT

LEVELS = (20, 50, 80)
"""Percentiles of slices by CPU per slice: little, median, much.

A mean could not distinguish a node that still serves pods with little CPU from a node that serves none.
"""
_WORTH = 4
"""What a free slice that lacks CPU loses, in slices: about what all places that it gives are worth."""
PER_SLICE = _WORTH * UNIT // len(LEVELS)
"""Value of one slice at each level."""
_BITS = 4
"""Leading bits that are kept of CPU amounts: amounts within an eighth count as equal."""


class CpuHistory:
    """Slices and CPU of arrived pods, by the leading bits of CPU per slice, which bounds memory."""

    def __init__(self) -> None:
        self._slices: dict[int, int] = {}
        self._cpu_milli: dict[int, int] = {}

    def learn(self, slices: int, cpu_milli: int) -> None:
        """Count slices with this CPU each; the caller bounds the amounts."""
        ignored = max(0, cpu_milli.bit_length() - _BITS)
        about = cpu_milli >> ignored << ignored
        self._slices[about] = self._slices.get(about, 0) + slices
        self._cpu_milli[about] = self._cpu_milli.get(about, 0) + slices * cpu_milli

    def halve(self) -> None:
        """Give older arrivals less weight."""
        self._cpu_milli = {about: cpu // 2 for about, cpu in self._cpu_milli.items()}
        self._slices = {about: slices // 2 for about, slices in self._slices.items() if slices > 1}

    def prices(self) -> tuple[int, ...]:
        """Return the worth of one milli-CPU at each of `LEVELS`: slices that it serves, times PER_SLICE."""
        total, passed = sum(self._slices.values()), 0
        prices: list[int] = []
        for about, slices in sorted(self._slices.items()):
            passed += slices
            while len(prices) < len(LEVELS) and 100 * passed >= total * LEVELS[len(prices)]:
                prices.append(slices * PER_SLICE // max(1, self._cpu_milli[about]))
        return tuple(prices)
