"""What the free slices of a node are worth to the pods that are expected there."""

from __future__ import annotations

from dataclasses import dataclass

Size = tuple[int, int]
"""Slices on each GPU, and how many GPUs of one node."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """The worth of free slices to expected pods, fixed for a while.

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
