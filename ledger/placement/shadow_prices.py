"""The worth of a gap of v free slices on a GPU: the prices of an ideal packing of the pods that arrive.

Imagine very many GPUs, and pods in the proportions that have arrived, a little more than fit. To fill GPUs
with patterns of pods (5 + 3, 6 + 2, 4 + 4, ...) so that most slices are used is a small linear programme. Its
dual prices are the worth of one more pod of a size, and of one more GPU. A gap is worth the best pattern that
fits, at these prices: much if common pods fill it, nothing if the pods that could fill it are scarce. Gilmore
and Gomory's column generation solves the programme: the next pattern comes from the same table of gaps.

Prices only steer; they are floats here, and integers wherever they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OVERLOAD = 1.05
"""Arrived slices per existing slice: the worth of gaps matters when the cluster is full."""
_TINY = 1e-9
_MAX_STEPS = 300


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """The worth of free slices for future pods, fixed for a while: dual prices of an ideal packing.

    Compared by identity, so that caches by prices are fast.
    """

    slices_per_gpu: int
    gpu: tuple[int, ...]
    """Worth of a GPU with v free slices, in UNITs of a slice."""
    gaps: tuple[tuple[int, ...], ...]
    """For s slices: the gaps (numbers of free slices) that hold them, the cheapest first."""
    idle: tuple[int, ...]
    """Worth of i idle GPUs on one node beyond their sum, in UNITs of a slice."""
    cpu: tuple[int, ...]
    """Slices that one milli-CPU serves, at each level of CPU per slice (cpu_history.py)."""


def gap_prices(sizes: Mapping[int, int], slices_per_gpu: int) -> list[float]:
    """Return the worth, in slices, of a gap of 0, 1, ... `slices_per_gpu` slices.

    Args:
        sizes: number of arrived pods by slices, for every size from 1 to `slices_per_gpu`; none may be 0.
        slices_per_gpu: slices of one GPU.
    """
    counts = [float(sizes[size]) for size in range(1, slices_per_gpu + 1)]
    gpus = sum(size * count for size, count in enumerate(counts, start=1)) / slices_per_gpu / _OVERLOAD
    programme = _Programme([*counts, gpus])
    for _ in range(_MAX_STEPS):
        worth, pattern = _best_pattern(programme.prices[:-1], slices_per_gpu)
        if not programme.improve(pattern, sum((index + 1) * n for index, n in enumerate(pattern))):
            break
    return worth


def _best_pattern(prices: Sequence[float], slices_per_gpu: int) -> tuple[list[float], list[int]]:
    """The worth of every gap at these prices of sizes, and the pods of each size that fill a GPU best."""
    worth, choice = [0.0] * (slices_per_gpu + 1), [0] * (slices_per_gpu + 1)
    for gap in range(1, slices_per_gpu + 1):
        worth[gap] = worth[gap - 1]
        for size in range(1, gap + 1):
            value = size - prices[size - 1] + worth[gap - size]
            if value > worth[gap] + _TINY:
                worth[gap], choice[gap] = value, size
    pattern, gap = [0] * slices_per_gpu, slices_per_gpu
    while gap:
        if choice[gap]:
            pattern[choice[gap] - 1] += 1
        gap -= choice[gap] or 1
    return worth, pattern


class _Programme:
    """Revised simplex: rows are the supply of each size and the number of GPUs, columns are patterns."""

    def __init__(self, supply: list[float]) -> None:
        rows = range(len(supply))
        self._left = supply
        self._inverse = [[float(row == column) for column in rows] for row in rows]
        self._values = [0.0 for _ in rows]
        self.prices = [0.0 for _ in rows]

    def improve(self, pattern: list[int], value: int) -> bool:
        """Bring in the pattern, or the slack of a row with a negative price; False if neither helps."""
        lowest = min(range(len(self.prices)), key=self.prices.__getitem__)
        if self.prices[lowest] < -_TINY:
            return self._enter([float(row == lowest) for row in range(len(self.prices))], 0.0)
        column = [float(count) for count in [*pattern, 1]]
        gained = value - _dot(self.prices, column)
        return gained > _TINY * 100 and self._enter(column, float(value))

    def _enter(self, column: list[float], value: float) -> bool:
        change = [_dot(row, column) for row in self._inverse]
        ratios = [(self._left[row] / by, row) for row, by in enumerate(change) if by > _TINY]
        if not ratios:
            return False
        step, leaving = min(ratios)
        pivot = [entry / change[leaving] for entry in self._inverse[leaving]]
        for row, by in enumerate(change):
            if by:
                self._left[row] -= step * by
                self._inverse[row] = [
                    old - by * new for old, new in zip(self._inverse[row], pivot, strict=True)
                ]
        self._left[leaving], self._inverse[leaving], self._values[leaving] = step, pivot, value
        self.prices = [_dot(self._values, entries) for entries in zip(*self._inverse, strict=True)]
        return True


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum([a * b for a, b in zip(one, other, strict=True)])
