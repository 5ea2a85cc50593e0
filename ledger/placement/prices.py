"""What free slices of a node are worth to expected pods, and what a placement takes of that worth.

Free slices without the CPU that pods request with them are unusable. The CPU per slice differs by pod, so
unusable slices are counted at three levels of it, and the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from modes.fraction import Fraction

UNIT = 10**9
"""One slice in the fixed-point arithmetic of scores. Integers make a score the same everywhere."""
PER_FREE_SLICE = UNIT // 10**6
"""Breaks ties between nodes that lose equally: the fuller node is better."""
Size = tuple[int, int]
"""Slices on each GPU, and how many GPUs of one node."""
LEVELS = (20, 50, 80)
"""Percentiles of requested slices by CPU per slice: little, median, much."""
_WORTH = 4
"""What a free slice that lacks CPU loses, in slices: about what all places that it gives are worth."""
PER_SLICE = _WORTH * UNIT // len(LEVELS)
"""Value of one slice at each level."""
_BITS = 4
"""Leading bits that are kept of CPU amounts: amounts within an eighth count as equal."""
Gains = Sequence[tuple[int, int]]
"""By level: the price of a milli-CPU, and the unusable slices that a pod uses up (negative: creates)."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The worth of free slices on alike nodes, fixed for a while."""

    slices_per_gpu: int
    gpu: tuple[int, ...]
    """Worth of a GPU with v free slices, in UNITs of a slice."""
    idle: tuple[int, ...]
    """Worth of i idle GPUs on one node beyond their sum, in UNITs of a slice."""
    cpu: tuple[int, ...]
    """Worth of one milli-CPU at each level of CPU per slice, in UNITs of a slice."""


def prices_of(places: Mapping[Size, float], slices_per_gpu: int, gpus: int, cpu: tuple[int, ...]) -> Prices:
    """Return the prices by which free slices are worth all places that they give on such nodes.

    `places` has the worth of a pod's place by its size, in slices, and `cpu` that of a milli-CPU by level.
    """
    gpu, idle = [0.0] * (slices_per_gpu + 1), [0.0] * (gpus + 1)
    for (slices, several), worth in places.items():
        of, each = (gpu, slices) if several == 1 else (idle, several)
        for free in range(each, len(of)):
            of[free] += worth * (free // each)
    gpu_units, idle_units = (tuple([round(worth * UNIT) for worth in each]) for each in (gpu, idle))
    return Prices(slices_per_gpu, gpu_units, idle_units, cpu)


@lru_cache(maxsize=1024)
def _cheapest_gaps(worth: tuple[int, ...], slices: int) -> tuple[int, ...]:
    """Return the numbers of free slices that hold so many, the cheapest first, then the smallest."""
    found = sorted([(worth[free] - worth[free - slices], free) for free in range(slices, len(worth))])
    return tuple([free for _, free in found])


def base_score(
    free: Sequence[int], fraction: Fraction, prices: Prices, others: Sequence[int] = ()
) -> int | None:
    """Return a higher score the less worth a node's free slices lose to the pod; None without room.

    The score is the slices taken minus this loss, in UNITs of a slice. Of nodes that lose equally, the fuller
    one is better. `free` has the free slices of each GPU that the pod accepts, which may be negative, and
    `others` those of the node's other GPUs.
    """
    found = lost(free, fraction, prices)
    if found is None:
        return None
    loss, begun = found
    if others:
        free = (*free, *others)
    if begun:
        most, idle = len(prices.idle) - 1, free.count(prices.slices_per_gpu)
        loss += prices.idle[min(idle, most)] - prices.idle[min(idle - begun, most)]
    return fraction.slices * UNIT - loss - sum(free) * PER_FREE_SLICE


def lost(free: Sequence[int], fraction: Fraction, prices: Prices) -> tuple[int, int] | None:
    """Return the worth that a pod's GPUs lose, in UNITs, and how many were idle; None without room."""
    worth, per_gpu = prices.gpu, prices.slices_per_gpu
    if fraction.is_apart:
        positions = gpus_of_split(free, fraction) if sum(free) >= fraction.slices else None
        if positions is None:
            return None
        left = list(free)
        for position, slices in zip(positions, fraction.pieces, strict=True):
            left[position] -= slices
        loss = sum([worth[free[at]] - worth[left[at]] for at in {*positions}])
        return loss, free.count(per_gpu) - left.count(per_gpu)
    gaps, slices = best_gaps(free, fraction, prices), fraction.slices_on_each
    if gaps is None:
        return None
    return sum([worth[gap] - worth[gap - slices] for gap in gaps]), gaps.count(per_gpu)


def best_gaps(free: Collection[int], fraction: Fraction, prices: Prices) -> list[int] | None:
    """Return the free slices of the different GPUs of a node that lose the least; None without room."""
    free, missing, chosen = [*free], fraction.gpus, list[int]()
    for gap in _cheapest_gaps(prices.gpu, fraction.slices_on_each):
        taken = min(free.count(gap), missing)
        chosen += [gap] * taken
        missing -= taken
        if not missing:
            return chosen
    return None


def gpus_of_split(free: Sequence[int], fraction: Fraction) -> list[int] | None:
    """Return the position in `free` of the GPU that each container gets; None without room.

    The largest chooses first, the fullest GPU. For up to three this finds room wherever there is any.
    """
    left, positions = list(free), [0] * fraction.containers
    for container in sorted(range(len(positions)), key=lambda at: -fraction.pieces[at]):
        slices = fraction.pieces[container]
        roomy = [at for at, each in enumerate(left) if each >= slices]
        if not roomy:
            return None
        positions[container] = fullest = min(roomy, key=left.__getitem__)
        left[fullest] -= slices
    return positions


class CpuHistory:
    """Slices that arrived, by the CPU that they requested each."""

    def __init__(self) -> None:
        self._slices: Counter[int] = Counter()
        """By the leading bits of milli-CPU per slice, which bounds memory."""

    def learn(self, slices: int, cpu_milli: int) -> None:
        """Count slices with this CPU each; the caller bounds the amounts."""
        ignored = max(0, cpu_milli.bit_length() - _BITS)
        middle = 1 << ignored >> 1
        self._slices[(cpu_milli >> ignored << ignored) + middle] += slices

    def halve(self) -> None:
        """Give older arrivals less weight."""
        self._slices = Counter({cpu: slices // 2 for cpu, slices in self._slices.items() if slices > 1})

    def prices(self) -> tuple[int, ...]:
        """Return the worth of one milli-CPU at each of `LEVELS`, in UNITs of a slice."""
        total, passed, prices = self._slices.total(), 0, list[int]()
        for cpu, slices in sorted(self._slices.items()):
            passed += slices
            while len(prices) < len(LEVELS) and 100 * passed >= total * LEVELS[len(prices)]:
                prices.append(PER_SLICE // max(1, cpu))
        return tuple(prices)


def gains(slices: int, cpu_milli: int, prices: Sequence[int]) -> Gains:
    """Return the unusable slices of a node that a pod uses up or creates, by level."""
    return [(price, slices * PER_SLICE - cpu_milli * price) for price in prices]


def most_gained(pod: Gains) -> int:
    """Return the maximum of `taken_up`."""
    return sum([gain for _, gain in pod if gain > 0])


def taken_up(free: int, cpu_free: int, pod: Gains) -> int:
    """Return the CPU part of the score: unusable slices before the pod, minus those after it."""
    total, whole = 0, free * PER_SLICE
    for price, gain in pod:
        lacking = whole - cpu_free * price
        if lacking > 0:
            total += min(gain, lacking)
        elif gain < lacking:
            total += gain - lacking
    return total


def unusable_slices(free: int, cpu_free: int, prices: Sequence[int]) -> int:
    """Return a node's unusable slices, in UNITs of a slice."""
    return sum([max(0, free * PER_SLICE - cpu_free * price) for price in prices])


def enough_cpu(free: int, pod: Gains) -> list[int]:
    """Return the amounts of free CPU from which on the pod creates no unusable slices, by level."""
    return [-(-(free * PER_SLICE - gain) // price) for price, gain in pod if gain < 0]
