"""How good a node is for a pod: TabHinge, the change of what its free slices are worth to pods to come.

Scores are integers in UNITs of a slice (ledger/demand.py); the larger the better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.demand import UNIT, Worth
from ledger.fraction import Fraction


def fragments(free: Sequence[int], worth: Worth) -> int:
    """Free slices of one node's GPUs that the pods to come are not expected to use."""
    gpu, idle = worth.gpu, free.count(worth.slices_per_gpu)
    return sum(free) * UNIT - sum(gpu[slices] for slices in free) - worth.idle[min(idle, len(worth.idle) - 1)]


def stranded(free: int, cpu_free: int, worth: Worth) -> int:
    """Free slices of a node that lack the CPU they would need."""
    return max(0, free * UNIT - cpu_free * worth.cpu)


def after(free: Sequence[int], fraction: Fraction, worth: Worth) -> list[int] | None:
    """Free slices once the fraction is placed on the best GPU, or GPUs, of these; None if they have no room."""
    slices = fraction.slices_on_each
    left = list(free)
    for _ in range(fraction.gpus):
        fitting = [v for v in left if v >= slices]
        if not fitting:
            return None
        best = max(fitting, key=lambda v: worth.gpu[v - slices] - worth.gpu[v])
        left[left.index(best)] = best - slices
    return left


def base_score(free: Sequence[int], fraction: Fraction, worth: Worth) -> int | None:
    """The part of the score that GPUs alone decide; None if they have no room."""
    left = after(free, fraction, worth)
    if left is None:
        return None
    return fragments(free, worth) - fragments(left, worth) - sum(free) * UNIT // 100


def cpu_score(free: int, cpu_free: int, slices: int, cpu_milli: int, worth: Worth) -> int:
    """The part of the score that CPU decides: stranded slices that the pod would take up, or cause."""
    return stranded(free, cpu_free, worth) - stranded(free - slices, cpu_free - cpu_milli, worth)


def choose_indices(free: Mapping[int, int], fraction: Fraction, worth: Worth) -> tuple[int, ...]:
    """The GPUs of one node to take, by index; the lowest of equally good ones. The node must have room."""
    slices, gpu = fraction.slices_on_each, worth.gpu
    fitting = [index for index, v in sorted(free.items()) if v >= slices]
    fitting.sort(key=lambda index: gpu[free[index]] - gpu[free[index] - slices])
    return tuple(sorted(fitting[: fraction.gpus]))
