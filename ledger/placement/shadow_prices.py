"""What the free slices of a node are worth to the pods that are expected there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Size = tuple[int, int]
"""Slices on each GPU, and how many GPUs of one node."""


class Gaps(dict[int, tuple[int, ...]]):
    """For s slices: the gaps (numbers of free slices) that hold them, the cheapest first, then the smallest.

    Sorted when they are first asked for: most prices are renewed before pods of every size have come.
    """

    __slots__ = ("_gpu",)

    def __init__(self, gpu: Sequence[int]) -> None:
        """`gpu` is the worth of a GPU by its free slices."""
        super().__init__()
        self._gpu = gpu

    def __missing__(self, slices: int) -> tuple[int, ...]:
        gpu = self._gpu
        found = sorted([(gpu[free] - gpu[free - slices], free) for free in range(slices, len(gpu))])
        gaps = self[slices] = tuple([free for _, free in found])
        return gaps


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """The worth of free slices to expected pods, fixed for a while.

    Compared by identity, so that caches by prices are fast.
    """

    slices_per_gpu: int
    gpu: tuple[int, ...]
    """Worth of a GPU with v free slices, in UNITs of a slice."""
    gaps: Gaps
    idle: tuple[int, ...]
    """Worth of i idle GPUs on one node beyond their sum, in UNITs of a slice."""
    cpu: tuple[int, ...]
    """Slices that one milli-CPU serves, at each level of CPU per slice (cpu_history.py)."""
