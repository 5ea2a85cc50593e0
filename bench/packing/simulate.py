"""One run: pods arrive one after the other, nothing leaves, a pod that finds no room is not tried again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from bench.packing.trace import TracePod

MAX_LOAD = 1.3


class Policy(Protocol):
    """What is compared."""

    def place(self, pod: TracePod) -> bool:
        """Place a pod for good; False if there is no room."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one policy did with one order of arrivals."""

    allocated: float
    """Per cent of GPU capacity allocated when the arrived load is 100 %."""
    failed_many: int
    """Pods of eight GPUs that had found no room by then."""
    curve: tuple[float, ...]
    """Per cent allocated at each whole per cent of arrived load, from 0 on."""


def simulate(policy: Policy, arrivals: Iterable[TracePod], capacity: int) -> Run:
    """Let pods arrive and see how full the cluster gets."""
    arrived = allocated = failed_many = failed_at_full = 0
    curve: list[float] = []
    for pod in arrivals:
        arrived += pod.total
        while arrived * 100 > len(curve) * capacity:
            failed_at_full = failed_many if len(curve) <= 100 else failed_at_full  # noqa: PLR2004 - per cent
            curve.append(100 * allocated / capacity)
        if policy.place(pod):
            allocated += pod.total
        elif pod.gpus == 8:  # noqa: PLR2004 - the largest pods of the traces
            failed_many += 1
    return Run(curve[100], failed_at_full, tuple(curve))
