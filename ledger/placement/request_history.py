"""What pods ask for, learnt from those that arrived, and what it makes free slices worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt

from ledger.placement.cpu_history import CpuHistory
from ledger.placement.shadow_prices import hole_prices
from modes.fraction import Fraction
from modes.packing import UNIT

_MANY_GPUS = (2, 4, 8)
"""Numbers of whole GPUs for which idle GPUs of one node are worth keeping together."""
_MAX_GPUS = 64
"""GPUs of the largest node whose idle GPUs are told apart."""
_SPREAD = 64
"""Slices that there are beside the free ones: where none are left nothing is scarce without end."""
_TIE_BREAK = 50
"""The price weighs so many times more than the one that decides between equals."""
_CHOOSY = 4
"""Power of the share of pods that are no larger, by which a size counts between equal prices."""
_PER_SQUARE = UNIT // 1_000
"""Between holes that are nearly equal even then: a small one is rather filled than a large one begun."""
_PRIOR_CPU_PER_GPU = 8000
"""Milli-CPU per GPU asked, until pods have told."""
_MAX_CPU_PER_GPU = 64_000
"""One pod with an absurd request must not teach that CPU does not matter."""
_REMEMBERED = 32_768
"""Pods after which all counts are halved."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """What free slices are worth to the pods to come, fixed for a while: dual prices of an ideal packing.

    Never equal to others, so that what is remembered by them is found at once.
    """

    slices_per_gpu: int
    gpu: tuple[int, ...]
    """Worth of a GPU with v free slices, in UNITs of a slice."""
    holes: tuple[tuple[int, ...], ...]
    """For s slices: the numbers of free slices that a GPU with room has, by what taking s of them loses."""
    idle: tuple[int, ...]
    """Worth of i idle GPUs on one node beyond that of each, in UNITs of a slice."""
    cpu: tuple[int, ...]
    """Slices that one milli-CPU serves, by how much CPU pods ask for with a slice (cpu_history.py)."""


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """What is free when prices are renewed, and what is taken."""

    slices: int = 0
    idle: Mapping[int, int] = field(default_factory=dict)
    """Nodes by how many idle GPUs they have."""
    cpu_milli: int = 0
    taken_slices: int = 0
    taken_cpu_milli: int = 0
    """By all pods of these nodes, those without GPUs too."""

    def slices_of_idle(self, gpus: int, slices_per_gpu: int) -> int:
        """Return the slices of idle GPUs that pods of so many GPUs could be given."""
        groups = sum([idle // gpus * nodes for idle, nodes in self.idle.items()])
        return groups * gpus * slices_per_gpu

    def plenty_of_cpu(self) -> int:
        """How much more CPU is left with a slice than was taken with one; UNIT for half as much again.

        Without any more, 0, CPU runs out before GPUs do. What nobody takes does not run out.
        """
        left, as_taken = self.cpu_milli * self.taken_slices, self.taken_cpu_milli * self.slices
        if not as_taken or not self.taken_slices:
            return UNIT
        return min(UNIT, max(0, 2 * UNIT * (left - as_taken) // as_taken))


class RequestHistory:
    """Counts of what arrived lately, for GPUs of one number of slices. Starts from one pod of every size."""

    def __init__(self, slices_per_gpu: int) -> None:
        self._slices_per_gpu = slices_per_gpu
        self._sizes = dict.fromkeys(range(1, slices_per_gpu + 1), 1)
        self._sizes |= {count * slices_per_gpu: 1 for count in _MANY_GPUS}
        self._arrived = len(self._sizes)
        self._cpu = CpuHistory()
        self._cpu.learn(sum(self._sizes), _PRIOR_CPU_PER_GPU // slices_per_gpu)
        self._renew_at = 0
        self.renew(FreeGpus())

    def learn(self, fraction: Fraction, cpu_milli: int) -> bool:
        """Count one arrived pod, one on several GPUs like so many.

        Return whether a sixteenth more has arrived since the prices were renewed.
        """
        size, parts = fraction.slices, fraction.parts
        sizes = fraction.split if fraction.is_apart else (size // parts,) * parts
        for each in sizes:
            self._sizes[each] = self._sizes.get(each, 0) + 1
        self._arrived += len(sizes)
        self._cpu.learn(size, min(cpu_milli // size, _MAX_CPU_PER_GPU // self._slices_per_gpu))
        if self._arrived >= _REMEMBERED:
            self._halve()
        return self._arrived >= self._renew_at

    def _halve(self) -> None:
        """Let what arrived long ago weigh less; no size is ever ruled out."""
        self._sizes = {size: max(1, count // 2) for size, count in self._sizes.items()}
        self._arrived = self._renew_at = sum(self._sizes.values())
        self._cpu.halve()

    def renew(self, free: FreeGpus) -> None:
        """Set the prices by what has arrived and by what is free now."""
        self._renew_at = self._arrived + max(16, self._arrived // 16)
        prices = hole_prices(self._sizes, self._slices_per_gpu)
        gpu = tuple(
            round(price * UNIT) + choosiness // _TIE_BREAK
            for price, choosiness in zip(prices, self._choosiness(), strict=True)
        )
        self.prices = ShadowPrices(
            self._slices_per_gpu, gpu, _holes(gpu), self._together(free), self._cpu.prices()
        )
        """What free slices are worth by now."""

    def _choosiness(self) -> Iterator[int]:
        """A hole by the sizes that it can take, which tells equal prices apart; the largest count most.

        They are refused first when pods come and go: there are fewest holes for them.
        """
        usable, worth = 0, 0
        sizes = [self._sizes.get(free, 0) for free in range(self._slices_per_gpu + 1)]
        total = sum(sizes)
        for free, count in enumerate(sizes):
            usable += count
            worth += UNIT * free * count * usable**_CHOOSY // total ** (_CHOOSY + 1)
            yield worth + free * free * _PER_SQUARE

    def _together(self, free: FreeGpus) -> tuple[int, ...]:
        """Idle GPUs of one node by the pods that need so many together, and by how scarce these GPUs are.

        While more of them are free than such pods will ask for nothing is lost with some. So a share of the
        slices that arrive, and that of the free slices which could serve it, are compared, and raised to a
        power: it counts for little until both are about equal. Where CPU runs out before GPUs do the power is
        2.5, as such pods will not find the CPU in the end, and where there is plenty 1.5.
        """
        per_gpu, scarcity = self._slices_per_gpu, {}
        arrived = sum([size * count for size, count in self._sizes.items()])
        plenty = free.plenty_of_cpu()
        for size, count in self._sizes.items():
            if size > per_gpu:
                serving = free.slices_of_idle(size // per_gpu, per_gpu) + _SPREAD
                scarce = min(UNIT, size * count * (free.slices + _SPREAD) * UNIT // (arrived * serving))
                more = plenty + (UNIT - plenty) * scarce // UNIT
                scarcity[size // per_gpu] = scarce * isqrt(scarce * UNIT) * more // UNIT**2
        return tuple(
            sum(scarce for gpus, scarce in scarcity.items() if gpus <= idle) * per_gpu * idle
            for idle in range(_MAX_GPUS + 1)
        )


def _holes(gpu: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The holes that each number of slices fits in: least loss first, of equals the smallest."""
    return tuple(
        tuple(sorted(range(slices, len(gpu)), key=lambda free: (gpu[free] - gpu[free - slices], free)))
        for slices in range(len(gpu))
    )
