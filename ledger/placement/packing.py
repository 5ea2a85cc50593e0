"""Scores a GPU's free slices for a pod: their worth to future pods, before and after the placement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from ledger.placement.shadow_prices import ShadowPrices
from modes.fraction import Fraction

UNIT = 10**9
"""One slice in the fixed-point arithmetic of scores. Integers make a score the same everywhere."""
PER_FREE_SLICE = UNIT // 10**6
"""Breaks ties between nodes that lose equally: the fuller node is better."""


def best_gap(free: Collection[int], slices: int, prices: ShadowPrices) -> int:
    """Return the free slices of the GPU of a node that loses the least worth by giving `slices`.

    Raises:
        ValueError: no GPU has room.
    """
    for gap in prices.gaps[slices]:
        if gap in free:
            return gap
    raise ValueError(f"no GPU of {free} has {slices} free slices")


def best_gaps(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> list[int] | None:
    """Return the free slices of the different GPUs of a node that lose the least; None without room."""
    missing = fraction.gpus
    chosen: list[int] = []
    for gap in prices.gaps[fraction.slices_on_each]:
        taken = min(free.count(gap), missing)
        chosen += [gap] * taken
        missing -= taken
        if not missing:
            return chosen
    return None


def gpus_of_split(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> list[int] | None:
    """Return for each container the position in `free` of the GPU that it gets; None without room.

    The largest chooses first: the GPU that loses the least or, if that leaves no room for another, the
    fullest. For up to three containers this always finds room if there is any. Free slices may be negative.
    """
    found = _parted(free, fraction, prices)
    if found is None:
        return None
    left, positions = list(free), [0] * len(fraction.split)
    for container, gap in zip(_largest_first(fraction.split), found[0], strict=True):
        position = positions[container] = left.index(gap)
        left[position] -= fraction.split[container]
    return positions


_Parted = tuple[list[int], list[int], int]
"""Free slices of the GPU that each container gets, the largest first; how many GPUs then have 0, 1, ... free
slices; the loss."""


def _parted(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> _Parted | None:
    sizes = _descending(fraction.split)
    if max(free, default=0) < sizes[0]:
        return None
    gpus = [free.count(slices) for slices in range(len(prices.gpu))]
    return _take_each(gpus, sizes, prices.gaps, prices.gpu) or _take_each(
        gpus, sizes, _tightest(len(gpus)), prices.gpu
    )


def _take_each(
    gpus: list[int], sizes: Sequence[int], gaps: Mapping[int, Sequence[int]], worth: Sequence[int]
) -> _Parted | None:
    # Called for each state of GPUs in a cluster; plain loops take a third of the time.
    left, chosen, lost = gpus.copy(), [], 0
    for slices in sizes:
        for gap in gaps[slices]:
            if left[gap]:
                left[gap] -= 1
                left[gap - slices] += 1
                chosen.append(gap)
                lost += worth[gap] - worth[gap - slices]
                break
        else:
            return None
    return chosen, left, lost


@lru_cache(maxsize=512)
def _largest_first(split: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(split)), key=lambda at: -split[at]))


@lru_cache(maxsize=512)
def _descending(split: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(split, reverse=True))


@lru_cache(maxsize=8)
def _tightest(sizes: int) -> Mapping[int, Sequence[int]]:
    """Free slices to try for each number of slices, the smallest first."""
    return {slices: range(slices, sizes) for slices in range(sizes)}


def score_on_gpus(
    free: Sequence[int], fraction: Fraction, prices: ShadowPrices, others: Sequence[int] = ()
) -> int | None:
    """Return a higher score the less worth a node's free slices lose for other pods; None without room.

    The score is the slices taken minus this loss, in UNITs of a slice. Of nodes that lose equally, the fuller
    one is better.

    Args:
        free: free slices of each GPU that the pod accepts.
        fraction: the pod's fraction.
        prices: current prices of free slices.
        others: free slices of the node's other GPUs.
    """
    found = _lost_apart(free, fraction, prices) if fraction.is_apart else lost_on_each(free, fraction, prices)
    if found is None:
        return None
    lost, begun = found
    if others:
        free = (*free, *others)
    if begun:
        lost += _lost_together(free.count(prices.slices_per_gpu), begun, prices)
    return fraction.slices * UNIT - lost - sum(free) * PER_FREE_SLICE


def lost_on_each(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> tuple[int, int] | None:
    """Return the loss of GPUs that give the same slices each, and how many of them were idle.

    The loss is in UNITs of a slice; None without room. Free slices may be negative.
    """
    slices, worth, per_gpu = fraction.slices, prices.gpu, prices.slices_per_gpu
    if slices <= per_gpu and fraction.parts == 1:
        # Most pods: called for each state of GPUs in a cluster.
        for gap in prices.gaps[slices]:
            if gap in free:
                return worth[gap] - worth[gap - slices], gap == per_gpu
        return None
    gaps, slices = best_gaps(free, fraction, prices), fraction.slices_on_each
    if gaps is None:
        return None
    return sum([worth[gap] - worth[gap - slices] for gap in gaps]), gaps.count(per_gpu)


def _lost_apart(free: Sequence[int], fraction: Fraction, prices: ShadowPrices) -> tuple[int, int] | None:
    """Return the same for containers on different GPUs."""
    found = _parted(free, fraction, prices) if sum(free) >= fraction.slices else None
    if found is None:
        return None
    _, left, lost = found
    return lost, free.count(prices.slices_per_gpu) - left[prices.slices_per_gpu]


def _lost_together(idle: int, gpus: int, prices: ShadowPrices) -> int:
    """Return what `idle` GPUs of a node lose by becoming `gpus` fewer, beyond the worth of each."""
    most = len(prices.idle) - 1
    return prices.idle[min(idle, most)] - prices.idle[min(idle - gpus, most)]
