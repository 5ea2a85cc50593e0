"""What free slices are worth to the pods that are expected: the places that they give them.

A place is room for one pod. The scarcity of places compares two shares: of the slices that are expected,
those that such pods request; of the free slices, those that they could use. A place is worth little while
they could use much more than they request, and all its slices if they could use only that or less. This one
rule leaves nodes to the pods that name them, gaps to the pods that fit, idle GPUs of one node to pods of
several, and GPUs with little memory to the pods that request little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ledger.placement.node_class import NodeClass, PriceKey, cpu_steps
from ledger.placement.prices import CpuHistory, Prices, Size, prices_of
from ledger.placement_request import RequestedShare
from modes.fraction import Fraction

MAX_KINDS = 256
"""Kinds of pods that are distinguished, because users choose what their pods request and accept."""
MAX_PRICED = 2**13
"""Kinds of pods times kinds of nodes: each is looked at when prices are renewed."""
_UNSEEN = 16
"""Pods that are expected in advance, in equal parts of every size on nodes without taints."""
_MANY_GPUS = (2, 4, 8)
"""Numbers of whole GPUs among these."""
_MOST_GPUS = 64
"""Idle GPUs of one node that are distinguished."""
_RARE = 8
"""Pods of a kind below which their size counts less: so few may be chance."""
_RENEWED = 16
"""Prices are renewed when a part of the cluster's slices, one in this many, has been requested since."""
_LEAST_PODS = 16
"""Pods that arrive before prices are renewed."""
_LEAST_KEPT = 2
"""Pods of a kind that is remembered when the counts are halved."""
_SHARP = 2.0
"""Exponent of scarcity: places count little until there are about as few as pods that will want one."""
_MOST_DENSE = 3.0
"""Limit for the slices that are expected per free slice."""
_PRIOR_CPU_PER_GPU = 8000
"""Prior for milli-CPU per requested GPU, before pods arrive."""
_MAX_CPU_PER_GPU = 64_000
"""Cap, so that one pod with an absurd request does not distort the history."""
_Sizes = tuple[tuple[PriceKey, Size], ...]


@dataclass(slots=True)
class _Kind:
    """Pods that have the same sizes on the same kinds of nodes."""

    count: float = 0.0
    mib: float = 0.0
    """MiB that they requested of each GPU, summed up; 0 if they requested slices."""


@dataclass(slots=True)
class _Places:
    """The free slices of alike nodes."""

    gaps: Counter[int] = field(default_factory=Counter)
    """GPUs by their free slices."""
    idle: Counter[int] = field(default_factory=Counter)
    """Nodes by their idle GPUs."""
    counts: dict[Size, int] = field(default_factory=dict)

    @property
    def slices(self) -> int:
        return sum([free * gpus for free, gpus in self.gaps.items()])

    def of(self, size: Size) -> int:
        """Return how many pods of one size have room, if no others come."""
        found = self.counts.get(size)
        if found is None:
            each, of = (size[0], self.gaps) if size[1] == 1 else (size[1], self.idle)
            found = self.counts[size] = sum([free // each * count for free, count in of.items()])
        return found


@dataclass(frozen=True, slots=True)
class _Demand:
    """Pods of one kind that will come."""

    count: float
    slices: float
    """Slices that one of them requests."""
    sizes: Mapping[PriceKey, Size]
    certainty: float = 1.0
    """How far they count by their size, and not only by their slices."""


class ExpectedPods:
    """Counts of recent pods, for GPUs with one number of slices, and the prices of free slices by them."""

    def __init__(self, slices_per_gpu: int) -> None:
        self._slices_per_gpu = slices_per_gpu
        self._kinds: dict[_Sizes, _Kind] = {}
        self._arrived = self._since = self._remembered = 0
        """Pods and slices since prices were renewed; slices in the counts."""
        self._most_kinds = MAX_KINDS
        self._capacity: int | None = None
        """Slices of the cluster when prices were renewed; None before."""
        self._cpu = _cpu_prior(slices_per_gpu)

    def learn(self, share: RequestedShare, accepting: Iterable[NodeClass]) -> bool:
        """Count a pod by what it got, on the classes that accept it; return whether to renew prices."""
        fraction = share.fraction
        most_cpu = _MAX_CPU_PER_GPU // self._slices_per_gpu
        self._cpu.learn(fraction.slices, min(share.cpu_milli // fraction.slices, most_cpu))
        self._arrived += 1
        self._since += fraction.slices
        mib, steps = fraction.mib if not fraction.is_apart else 0, cpu_steps(share.cpu_milli)
        large = dict.fromkeys([each.price_key for each in accepting if each.price_key[3] >= steps])
        for size in _sizes(fraction):
            self._count(size, mib, large)
            self._remembered += size[0] * size[1]
        if self._capacity is None:
            return True
        least = min(self._remembered, self._capacity) // _RENEWED
        return self._arrived >= _LEAST_PODS and self._since >= least

    def _count(self, size: Size, mib: int, accepted: Iterable[PriceKey]) -> None:
        """Count a pod with the others of its kind; one of too many kinds is not counted."""
        found = {key: _size_on(key[2], size, mib, self._slices_per_gpu) for key in accepted}
        sizes = tuple([(key, on) for key, on in found.items() if on is not None and key[0] >= size[1]])
        if sizes in self._kinds or len(self._kinds) < self._most_kinds:
            kind = self._kinds.setdefault(sizes, _Kind())
            kind.count += 1
            kind.mib += mib

    def renewed(self, classes: Iterable[NodeClass]) -> dict[PriceKey, Prices]:
        """Return the prices of all nodes with such GPUs, by what is free now."""
        self._arrived = self._since = 0
        places = self._places(classes)
        self._most_kinds = min(MAX_KINDS, max(1, MAX_PRICED // max(1, len(places))))
        if self._remembered >= (self._capacity or 0) or len(self._kinds) >= self._most_kinds:
            self._halve()
        return self._priced(places)

    def _priced(self, places: Mapping[PriceKey, _Places]) -> dict[PriceKey, Prices]:
        worth = _worth_of_places([*self._unseen(places), *self._learnt(places)], places)
        cpu = self._cpu.prices()
        return {
            key: prices_of(worth[key], self._slices_per_gpu, min(key[0], _MOST_GPUS), cpu) for key in places
        }

    def _places(self, classes: Iterable[NodeClass]) -> dict[PriceKey, _Places]:
        found: dict[PriceKey, _Places] = {}
        capacity, idle = 0, self._slices_per_gpu
        for each in classes:
            if each.sample.slices_per_gpu != self._slices_per_gpu:
                continue
            places = found.setdefault(each.price_key, _Places())
            for (gpus, _, _), accounts in each.states():
                nodes = len(accounts)
                capacity += len(gpus) * idle * nodes
                for free in gpus:
                    places.gaps[free] += nodes
                places.idle[gpus.count(idle)] += nodes
        self._capacity = capacity
        return found

    def _unseen(self, places: Mapping[PriceKey, _Places]) -> Iterator[_Demand]:
        """Pods that are expected in advance: nobody has to name them first."""
        sizes = _unseen_sizes(self._slices_per_gpu)
        for size in sizes:
            accepted = {key: size for key in places if not key[-1] and key[0] >= size[1]}
            if accepted:
                yield _Demand(_UNSEEN / len(sizes), size[0] * size[1], accepted)

    def _learnt(self, places: Mapping[PriceKey, _Places]) -> Iterator[_Demand]:
        """The recent pods."""
        mean = _mean_mib(places)
        for found, kind in self._kinds.items():
            sizes = {key: size for key, size in found if key in places}
            if sizes and kind.count:
                each, gpus = next(iter(sizes.values()))
                slices = kind.mib * self._slices_per_gpu / (kind.count * mean) if kind.mib else each
                yield _Demand(kind.count, slices * gpus, sizes, min(1.0, kind.count / _RARE))

    def _halve(self) -> None:
        """Halve the counts, so that older pods count less, and drop the kinds that come least."""
        self._remembered //= 2
        self._cpu.halve()
        frequent = sorted(self._kinds.items(), key=lambda item: -item[1].count)
        kept = frequent[: self._most_kinds // 2 + 1]
        self._kinds = {
            sizes: _Kind(kind.count / 2, kind.mib / 2) for sizes, kind in kept if kind.count >= _LEAST_KEPT
        }


@lru_cache(maxsize=8)
def unlearnt_prices(slices_per_gpu: int) -> Prices:
    """Return the prices before any pod came, by the pods that are expected in advance on an idle node."""
    gpus = _MANY_GPUS[-1]
    key: PriceKey = (gpus, slices_per_gpu, None, 0, None, None, ())
    idle = _Places(Counter({slices_per_gpu: gpus}), Counter({gpus: 1}))
    return ExpectedPods(slices_per_gpu)._priced({key: idle})[key]  # noqa: SLF001 - of this module


def _worth_of_places(
    demands: Iterable[_Demand], places: Mapping[PriceKey, _Places]
) -> Mapping[PriceKey, Mapping[Size, float]]:
    """Return what one place of each size is worth on each kind of nodes, in slices: the scarcer, the more."""
    demands = list(demands)
    free = {key: each.slices for key, each in places.items()}
    per_slice = sum(free.values()) / max(1.0, sum([each.count * each.slices for each in demands]))
    wanted: dict[PriceKey, dict[Size, list[float]]] = {key: {} for key in places}
    density = dict.fromkeys(places, 0.0)
    for each in demands:
        expected = each.count * per_slice
        named = expected * each.slices / max(1, sum([free[key] for key in each.sizes]))
        found = sum([places[key].of(size) for key, size in each.sizes.items()])
        scarcity = each.certainty * (expected / found if found else 1.0)
        for key, size in each.sizes.items():
            density[key] += named
            entry = wanted[key].setdefault(size, [0.0, 0.0])
            entry[0] += scarcity
            entry[1] += scarcity * each.slices
    worth: dict[PriceKey, Mapping[Size, float]] = {}
    for key, by_size in wanted.items():
        found_here = {
            size: slices * min(1.0, pods) ** _SHARP / pods for size, (pods, slices) in by_size.items() if pods
        }
        found_here[1, 1] = found_here.get((1, 1), 0.0) + min(_MOST_DENSE, density[key]) ** _SHARP
        worth[key] = found_here
    return worth


def _unseen_sizes(slices_per_gpu: int) -> list[Size]:
    return [
        *[(slices, 1) for slices in range(1, slices_per_gpu + 1)],
        *[(slices_per_gpu, gpus) for gpus in _MANY_GPUS],
    ]


def _cpu_prior(slices_per_gpu: int) -> CpuHistory:
    history = CpuHistory()
    requested = sum([slices * gpus for slices, gpus in _unseen_sizes(slices_per_gpu)])
    history.learn(requested, _PRIOR_CPU_PER_GPU // slices_per_gpu)
    return history


def _sizes(fraction: Fraction) -> list[Size]:
    """The sizes that a pod counts as; one on parts of several GPUs counts once for each."""
    if fraction.gpus == 1 or fraction.is_whole:
        return [(fraction.slices_on_each, fraction.gpus)]
    return [(slices, 1) for slices in fraction.pieces]


def _size_on(gpu_mib: int | None, size: Size, mib: int, slices_per_gpu: int) -> Size | None:
    """The size on GPUs of so many MiB; None if requested MiB do not fit."""
    if not mib:
        return size
    if gpu_mib is None or gpu_mib < mib:
        return None
    return -(-mib * slices_per_gpu // gpu_mib), size[1]


def _mean_mib(places: Mapping[PriceKey, _Places]) -> float:
    """MiB of a GPU, on average."""
    known = [(sum(each.gaps.values()), key[2]) for key, each in places.items() if key[2]]
    return max(1.0, sum([gpus * mib for gpus, mib in known]) / max(1, sum([gpus for gpus, _ in known])))
