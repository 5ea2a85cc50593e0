"""The CPU's part of a score: free slices without the CPU that pods request with them are unusable.

The CPU per slice differs by pod, so unusable slices are counted at three levels of it, and the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ledger.placement.prices import UNIT

LEVELS = (20, 50, 80)
"""Percentiles of requested slices by CPU per slice: little, median, much."""
_WORTH = 4
"""What a free slice that lacks CPU loses, in slices: about what all places that it gives are worth."""
PER_SLICE = _WORTH * UNIT // len(LEVELS)
"""Value of one slice at each level."""
_BITS = 4
"""Leading bits that are kept of CPU amounts: amounts within an eighth count as equal."""
Gains = Sequence[tuple[int, int]]
"""By level: the price of a milli-CPU, and the unusable slices that a pod uses up (negative: creates)."""


class CpuHistory:
    """Slices that arrived, by the CPU that they requested each."""

    def __init__(self) -> None:
        self._slices: Counter[int] = Counter()
        """By the leading bits of milli-CPU per slice, which bounds memory."""

    def learn(self, slices: int, cpu_milli: int) -> None:
        """Count slices with this CPU each; the caller bounds the amounts."""
        ignored = max(0, cpu_milli.bit_length() - _BITS)
        self._slices[cpu_milli >> ignored << ignored] += slices

    def halve(self) -> None:
        """Give older arrivals less weight."""
        self._slices = Counter({cpu: slices // 2 for cpu, slices in self._slices.items() if slices > 1})

    def prices(self) -> tuple[int, ...]:
        """Return the worth of one milli-CPU at each of `LEVELS`, in UNITs of a slice."""
        total, passed, prices = self._slices.total(), 0, list[int]()
        for cpu, slices in sorted(self._slices.items()):
            passed += slices
            while len(prices) < len(LEVELS) and 100 * passed >= total * LEVELS[len(prices)]:
                prices.append(PER_SLICE // max(1, cpu))
        return tuple(prices)


def gains(slices: int, cpu_milli: int, prices: Sequence[int]) -> Gains:
    """Return the unusable slices of a node that a pod uses up or creates, by level."""
    return [(price, slices * PER_SLICE - cpu_milli * price) for price in prices]


def most_gained(pod: Gains) -> int:
    """Return the maximum of `taken_up`."""
    return sum([gain for _, gain in pod if gain > 0])


def taken_up(free: int, cpu_free: int, pod: Gains) -> int:
    """Return the CPU part of the score: unusable slices before the pod, minus those after it."""
    total, whole = 0, free * PER_SLICE
    for price, gain in pod:
        lacking = whole - cpu_free * price
        if lacking > 0:
            total += min(gain, lacking)
        elif gain < lacking:
            total += gain - lacking
    return total


def unusable_slices(free: int, cpu_free: int, prices: Sequence[int]) -> int:
    """Return a node's unusable slices, in UNITs of a slice."""
    return sum([max(0, free * PER_SLICE - cpu_free * price) for price in prices])


def enough_cpu(free: int, pod: Gains) -> list[int]:
    """Return the amounts of free CPU from which on the pod creates no unusable slices, by level."""
    return [-(-(free * PER_SLICE - gain) // price) for price, gain in pod if gain < 0]
