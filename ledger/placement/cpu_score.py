"""How good a node's CPU is for a pod, beside its GPUs (modes/packing.py): the larger the better.

Stranded are those of a node's free slices that lack the CPU they would need. How much that is differs by pod,
so they are counted at each level of CPU that pods ask for (cpu_history.py), and the mean is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.placement.cpu_history import PER_SLICE
from ledger.placement.request_history import ShadowPrices

Gains = Sequence[tuple[int, int]]
"""By level the price of a milli-CPU, and the stranded slices that a pod can take up; below zero, strands."""


def gains(slices: int, cpu_milli: int, prices: ShadowPrices) -> Gains:
    """Return what a pod can take up of a node's stranded slices, or strands on it."""
    return [(price, slices * PER_SLICE - cpu_milli * price) for price in prices.cpu]


def most_gained(pod: Gains) -> int:
    """Return the most that `taken_up` can be."""
    most = 0
    for _, gain in pod:
        if gain > 0:
            most += gain
    return most


def taken_up(free: int, cpu_free: int, pod: Gains) -> int:
    """Return the part of the score that CPU decides: slices stranded before the pod, less those after."""
    total, whole = 0, free * PER_SLICE
    for price, gain in pod:
        lacking = whole - cpu_free * price
        if lacking > 0:
            total += min(gain, lacking)
        elif gain < lacking:
            total += gain - lacking
    return total


def stranded(free: int, cpu_free: int, prices: ShadowPrices) -> int:
    """Return what a node has stranded, in UNITs of a slice."""
    whole, total = free * PER_SLICE, 0
    for price in prices.cpu:
        lacking = whole - cpu_free * price
        if lacking > 0:
            total += lacking
    return total


def turning_points(free: int, pod: Gains) -> list[int]:
    """Return amounts of free CPU between which `taken_up` is linear, rounded up to a milli-CPU."""
    whole = free * PER_SLICE
    return [-(-needed // price) for price, gain in pod for needed in (whole, whole - gain)]
