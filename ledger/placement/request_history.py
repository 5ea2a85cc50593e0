"""Learns from arrived pods what sizes pods request, and what free slices are therefore worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt

from ledger.placement.cpu_history import CpuHistory
from ledger.placement.packing import UNIT
from ledger.placement.shadow_prices import ShadowPrices, gap_prices
from modes.fraction import Fraction

_MANY_GPUS = (2, 4, 8)
"""Numbers of whole GPUs for which it pays to keep idle GPUs of one node together."""
_MAX_GPUS = 64
"""Number of idle GPUs of one node that are distinguished."""
_SPREAD = 64
"""Slices that are added to the free ones, so that scarcity stays finite when none are free."""
_TIE_BREAK = 50
"""Weight of the price relative to the tie-breaker."""
_SELECTIVITY = 4
"""Exponent in the tie-breaker: the share of pods that are no larger is raised to it."""
_PER_SQUARE = UNIT // 1_000
"""Breaks remaining near-ties between gaps: a small gap is filled before a large one."""
_PRIOR_CPU_PER_GPU = 8000
"""Prior for milli-CPU per requested GPU, before pods arrive."""
_MAX_CPU_PER_GPU = 64_000
"""Cap, so that one pod with an absurd request does not distort the history."""
_REMEMBERED = 32_768
"""Pods after which all counts are halved."""


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """Free and used amounts when prices are renewed."""

    slices: int = 0
    idle: Mapping[int, int] = field(default_factory=dict)
    """Number of nodes by their number of idle GPUs."""
    cpu_milli: int = 0
    taken_slices: int = 0
    taken_cpu_milli: int = 0
    """Used by all pods of these nodes, also by those without GPUs."""

    def slices_of_idle(self, gpus: int, slices_per_gpu: int) -> int:
        """Return the slices of idle GPUs that pods of this many GPUs could get."""
        groups = sum([idle // gpus * nodes for idle, nodes in self.idle.items()])
        return groups * gpus * slices_per_gpu

    def plenty_of_cpu(self) -> int:
        """How much more CPU is free per free slice than was taken per used slice, from 0 to UNIT (half more).

        At 0, CPU runs out before GPUs do. If no CPU is used, the result is UNIT.
        """
        left, as_taken = self.cpu_milli * self.taken_slices, self.taken_cpu_milli * self.slices
        if not as_taken or not self.taken_slices:
            return UNIT
        return min(UNIT, max(0, 2 * UNIT * (left - as_taken) // as_taken))


class RequestHistory:
    """Counts of recent pods, for GPUs with one number of slices. The prior is one pod of every size."""

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
        """Count one arrived pod; a pod on several GPUs counts once for each.

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
        """Halve the counts, so that older pods count less; no size is ever ruled out."""
        self._sizes = {size: max(1, count // 2) for size, count in self._sizes.items()}
        self._arrived = self._renew_at = sum(self._sizes.values())
        self._cpu.halve()

    def renew(self, free: FreeGpus) -> None:
        """Set the prices by the pods that arrived and by what is free now."""
        self._renew_at = self._arrived + max(16, self._arrived // 16)
        prices = gap_prices(self._sizes, self._slices_per_gpu)
        gpu = tuple(
            round(price * UNIT) + selectivity // _TIE_BREAK
            for price, selectivity in zip(prices, self._selectivity(), strict=True)
        )
        self.prices = ShadowPrices(
            self._slices_per_gpu, gpu, _gaps(gpu), self._together(free), self._cpu.prices()
        )
        """Current worth of free slices."""

    def _selectivity(self) -> Iterator[int]:
        """Yield the tie-breaker of gaps, by the sizes that each can take; the largest sizes count most.

        Large sizes are refused first when pods come and go, because there are fewest gaps for them.
        """
        usable, worth = 0, 0
        sizes = [self._sizes.get(free, 0) for free in range(self._slices_per_gpu + 1)]
        total = sum(sizes)
        for free, count in enumerate(sizes):
            usable += count
            worth += UNIT * free * count * usable**_SELECTIVITY // total ** (_SELECTIVITY + 1)
            yield worth + free * free * _PER_SQUARE

    def _together(self, free: FreeGpus) -> tuple[int, ...]:
        """Worth of idle GPUs of one node, by the pods that need several and by how scarce these GPUs are.

        While more of them are free than such pods will request, using some loses nothing. So the size's share
        of the arrived slices is compared with the share of free slices that could serve it, and the ratio is
        raised to a power: it counts little until both are about equal. The power is 2.5 if CPU runs out
        before GPUs do, as such pods will then not find the CPU, and 1.5 if there is plenty of CPU.
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


def _gaps(gpu: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The gaps that each number of slices fits in, by cost; the smallest wins a tie."""
    return tuple(
        tuple(sorted(range(slices, len(gpu)), key=lambda free: (gpu[free] - gpu[free - slices], free)))
        for slices in range(len(gpu))
    )
