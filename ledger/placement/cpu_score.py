"""The CPU's part of a node's score, which is added to that of its GPUs (ledger/placement/packing.py).

The larger, the better. Unusable slices are free slices of a node without the CPU that they need. That CPU
differs by pod, so they are counted at each level of CPU that pods request (cpu_history.py), and the mean is
taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.placement.cpu_history import PER_SLICE
from ledger.placement.shadow_prices import ShadowPrices

Gains = Sequence[tuple[int, int]]
"""By level: the price of a milli-CPU, and the unusable slices that a pod uses up (negative: creates)."""


def gains(slices: int, cpu_milli: int, prices: ShadowPrices) -> Gains:
    """Return the unusable slices of a node that a pod uses up or creates, by level."""
    return [(price, slices * PER_SLICE - cpu_milli * price) for price in prices.cpu]


def most_gained(pod: Gains) -> int:
    """Return the maximum of `taken_up`."""
    most = 0
    for _, gain in pod:
        if gain > 0:
            most += gain
    return most


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


def unusable_slices(free: int, cpu_free: int, prices: ShadowPrices) -> int:
    """Return a node's unusable slices, in UNITs of a slice."""
    whole, total = free * PER_SLICE, 0
    for price in prices.cpu:
        lacking = whole - cpu_free * price
        if lacking > 0:
            total += lacking
    return total


def turning_points(free: int, pod: Gains) -> list[int]:
    """Return the amounts of free CPU between which `taken_up` is linear, rounded up to a milli-CPU."""
    whole = free * PER_SLICE
    return [-(-needed // price) for price, gain in pod for needed in (whole, whole - gain)]
