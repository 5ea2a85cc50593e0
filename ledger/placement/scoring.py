"""How good a node is for a pod: by what its free slices are worth to pods to come, before and after.

Scores are integers in UNITs of a slice (ledger/placement/arrivals.py); the larger the better.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger.placement.arrivals import UNIT, ShadowPrices
from modes.fraction import Fraction

_PER_FREE_SLICE = UNIT // 10**6
"""Decides between nodes whose GPUs lose equally: the fuller one is better."""


def gpu_score(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> int | None:
    """The part of the score that GPUs alone decide; None if they have no room.

    `free` holds the free slices of each GPU of one node, sorted.

    What the node's free slices are worth may not fall by more than the slices taken; of nodes that lose
    equally, one with less free is better.
    """
    slices = fraction.slices
    if slices < prices.slices_per_gpu:
        lost = _lost_on_one(free, slices, prices)
    else:
        lost = _lost_on_idle(free, fraction.gpus, prices)
    return None if lost is None else slices * UNIT - lost - sum(free) * _PER_FREE_SLICE


def pool_score(free: Sequence[int], fraction: Fraction, _prices: ShadowPrices) -> int | None:
    """The same for a pool: nothing is known of its GPUs, so the one with the least room is best."""
    return -free[0] if free[0] >= fraction.slices else None


def cpu_score(free: int, cpu_free: int, slices: int, cpu_milli: int, prices: ShadowPrices) -> int:
    """The part of the score that CPU decides: stranded slices that the pod would take up, or cause.

    Stranded are those of a node's free slices that lack the CPU they would need.
    """
    before = free * UNIT - cpu_free * prices.cpu
    after = before - slices * UNIT + cpu_milli * prices.cpu
    return max(0, before) - max(0, after)


def best_hole(free: Collection[int], slices: int, prices: ShadowPrices) -> int:
    """Free slices of the GPU of one node that loses the least worth by giving so many. There must be room."""
    for hole in prices.holes[slices]:
        if hole in free:
            return hole
    raise ValueError(f"no GPU has {slices} slices left of {free}")


def _lost_on_idle(free: Sequence[int], gpus: int, prices: ShadowPrices) -> int | None:
    idle = free.count(prices.slices_per_gpu)
    if idle < gpus:
        return None
    return gpus * prices.gpu[-1] + _lost_together(idle, gpus, prices)


def _lost_on_one(free: Sequence[int], slices: int, prices: ShadowPrices) -> int | None:
    if not free or free[-1] < slices:
        return None
    hole = best_hole(free, slices, prices)
    lost = prices.gpu[hole] - prices.gpu[hole - slices]
    if hole < prices.slices_per_gpu:
        return lost
    return lost + _lost_together(free.count(hole), 1, prices)


def _lost_together(idle: int, gpus: int, prices: ShadowPrices) -> int:
    """What idle GPUs of one node lose by being so many fewer, beyond the worth of each."""
    most = len(prices.idle) - 1
    return prices.idle[min(idle, most)] - prices.idle[min(idle - gpus, most)]
