"""What a placement costs the pods that are expected: the places that it takes from them.

A place is room for one pod. What a place is worth to a kind of pod follows from two shares: of the slices
that are expected, those that such pods will request, and of the free slices, those that such pods could use.
While they could use much more than they will request, a place is worth little; if they could use only what
they will request, or less, it is worth all their slices. Free slices are worth all places that they make, for
every kind of pod. So one rule leaves nodes to the pods that name them, gaps to the pods that fit, idle GPUs
of one node to pods of several, and GPUs with little memory to the pods that request little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.placement.candidates import CandidateFinder
from ledger.placement.cpu_history import CpuHistory
from ledger.placement.expected_pod import ExpectedPod
from ledger.placement.free_places import FreePlaces, worth_to
from ledger.placement.node_class import ClassKey, NodeClass, cpu_steps
from ledger.placement.shadow_prices import Size
from ledger.placement.work import TooMuchWorkError
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction

MAX_KINDS = 256
"""Kinds of pods that are distinguished, because users choose what their pods request and accept."""
MAX_PRICED = 2**13
"""Kinds of pods times classes of nodes: each is looked at when prices are renewed."""
_UNSEEN = 16
"""Pods that are expected in advance, in equal parts of every size on nodes without taints: before any pod
arrives they are all that is known, and later they keep room for what has not come yet."""
_MANY_GPUS = (2, 4, 8)
"""Numbers of whole GPUs among these."""
_MOST_GPUS = 64
"""Idle GPUs of one node that are distinguished where its class is not known yet."""
_RENEWED = 16
"""Prices are renewed when a part of the cluster's slices, one in this many, has been requested since."""
_LEAST_PODS = 16
"""Pods that arrive before prices are renewed."""
_SHARP = 2.0
"""Exponent of scarcity: places count little until there are about as few as pods that will want one."""
_REMEMBERED = 1
"""Counts are halved at this many times the slices of the cluster and of the pods expected in advance."""
_PRIOR_CPU_PER_GPU = 8000
"""Prior for milli-CPU per requested GPU, before pods arrive."""
_MAX_CPU_PER_GPU = 64_000
"""Cap, so that one pod with an absurd request does not distort the history."""
_MOST = 3.0
"""Limit for the slices that are expected per free slice of a class."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods that are expected, and alike."""

    count: float
    slices: float
    """Slices that one of them requests."""
    sizes: Mapping[NodeClass, Size]
    """Size of one on each class of nodes that could hold it."""
    accepted: Collection[NodeClass]
    """Classes that its labels and tolerations accept, even if their nodes have too little CPU."""


class ExpectedPods:
    """Counts of recent pods, for GPUs with one number of slices, and the prices of free slices by them."""

    def __init__(self, slices_per_gpu: int) -> None:
        self._slices_per_gpu = slices_per_gpu
        self._pods: dict[tuple[frozenset[tuple[ClassKey, Size]], int], ExpectedPod] = {}
        self._arrived = self._slices = 0
        """Pods and slices since prices were renewed."""
        self._remembered = 0
        """Slices in the counts."""
        self._most_kinds = MAX_KINDS
        self._capacity: int | None = None
        """Slices of the cluster when prices were renewed; None before."""
        self._cpu = CpuHistory()
        sizes = self._unseen_sizes()
        requested = sum([slices * gpus for slices, gpus in sizes])
        self._unseen = requested * _UNSEEN // len(sizes)
        """Slices of the pods that are expected in advance."""
        self._cpu.learn(requested, _PRIOR_CPU_PER_GPU // slices_per_gpu)
        places = FreePlaces(slices_per_gpu)
        places.add((slices_per_gpu,) * _MANY_GPUS[-1], 1)
        wanted = {size: places.slices / requested / places.of(size) for size in sizes}
        unlearnt = _worth_of_places(
            {(slices, gpus): (pods, pods * slices * gpus) for (slices, gpus), pods in wanted.items()}, 1.0
        )
        self.prices = worth_to(unlearnt, slices_per_gpu, _MOST_GPUS, self._cpu.prices())
        """Worth of free slices on nodes of a class that joined since prices were renewed."""

    def learn(self, request: PlacementRequest, finder: CandidateFinder) -> bool:
        """Count one arrived pod, as it was placed; return whether prices should be renewed.

        A pod whose demands take too long to compare with all nodes counts only with its CPU.
        """
        share = request.share
        slices = share.fraction.slices
        self._cpu.learn(slices, min(share.cpu_milli // slices, _MAX_CPU_PER_GPU // self._slices_per_gpu))
        self._arrived += 1
        self._slices += slices
        if share.mode_type.prices_node_classes:
            try:
                self._count(request, finder)
            except TooMuchWorkError:
                return False
        if self._capacity is None:
            return True
        since = min(self._remembered, self._capacity) // _RENEWED
        return self._arrived >= _LEAST_PODS and self._slices >= since

    def _count(self, request: PlacementRequest, finder: CandidateFinder) -> None:
        candidates, fraction = finder.select(request), request.share.fraction
        mib = fraction.mib if not fraction.is_apart else 0
        step = cpu_steps(request.share.cpu_milli)
        for size in _sizes(fraction):
            pod = candidates.expected.get((size, step))
            if pod is None or pod.is_dropped:
                pod = candidates.expected[size, step] = self._pod(request, size, mib, finder)
            pod.count += 1
            pod.mib += mib
            self._remembered += size[0] * size[1]

    def _pod(self, request: PlacementRequest, size: Size, mib: int, finder: CandidateFinder) -> ExpectedPod:
        """The kind of a pod: its size on each class of nodes that its labels and tolerations accept."""
        per_gpu = self._slices_per_gpu
        one_gpu = request.with_share(fraction=Fraction(per_gpu, per_gpu))
        step = cpu_steps(request.share.cpu_milli)
        classes = finder.select(one_gpu).classes
        sizes = {each.key: _size_on(each.sample.gpu_mib, size, mib, per_gpu) for each in classes}
        key = frozenset([(key, on_it) for key, on_it in sizes.items() if on_it is not None]), step
        pod = self._pods.get(key)
        if pod is None:
            pod = ExpectedPod()
            if len(self._pods) < self._most_kinds:
                self._pods[key] = pod
            else:
                pod.is_dropped = True
        return pod

    def renew(self, classes: Sequence[NodeClass]) -> None:
        """Set the prices of all classes of nodes from which the pods can choose, by what is free now."""
        self._arrived = self._slices = 0
        self._capacity = sum([each.capacity for each in classes])
        most = _REMEMBERED * (self._capacity + self._unseen)
        self._most_kinds = min(MAX_KINDS, max(1, MAX_PRICED // max(1, len(classes))))
        if self._remembered >= most or len(self._pods) >= self._most_kinds:
            self._halve()
        # On nodes without a class only the worth of CPU is learnt.
        self.prices = replace(self.prices, cpu=self._cpu.prices())
        places = {each: each.free_places() for each in classes}
        unseen = list(self._unseen_kinds(classes))
        expected = _demand([*unseen, *self._learnt_kinds(classes)], places)
        in_advance = _demand(unseen, places)
        doubt = self._unseen / (self._unseen + self._remembered)
        for node_class, by_size in expected.items():
            demand = _between(by_size, in_advance[node_class], doubt)
            gpus = len(node_class.sample.gpus)
            node_class.set_worth(worth_to(demand, self._slices_per_gpu, gpus, self.prices.cpu))

    def _unseen_kinds(self, classes: Sequence[NodeClass]) -> Iterator[_Kind]:
        """The pods that are expected in advance: they tolerate no taint."""
        sizes = self._unseen_sizes()
        accepted = [each for each in classes if not each.sample.taints] or classes
        for size in sizes:
            slices = float(size[0] * size[1])
            yield _Kind(_UNSEEN / len(sizes), slices, dict.fromkeys(accepted, size), accepted)

    def _learnt_kinds(self, classes: Sequence[NodeClass]) -> Iterator[_Kind]:
        """The recent pods."""
        known, mean_mib = _by_known_keys(classes), _mean_mib(classes)
        for (keys, step), pod in self._pods.items():
            accepted = {node_class: size for key, size in keys for node_class in known.get(key, ())}
            sizes = {
                node_class: size for node_class, size in accepted.items() if node_class.cpu_steps >= step
            }
            if not sizes or not pod.count:
                continue
            slices, gpus = next(iter(sizes.values()))
            each = pod.mib * self._slices_per_gpu / (pod.count * mean_mib) if pod.mib else slices
            yield _Kind(pod.count, each * gpus, sizes, accepted)

    def _unseen_sizes(self) -> list[Size]:
        per_gpu = self._slices_per_gpu
        return [
            *[(slices, 1) for slices in range(1, per_gpu + 1)],
            *[(per_gpu, gpus) for gpus in _MANY_GPUS],
        ]

    def _halve(self) -> None:
        """Halve the counts, so that older pods count less, and drop the kinds that come least."""
        self._remembered //= 2
        self._cpu.halve()
        frequent = sorted(self._pods.items(), key=lambda item: -item[1].count)
        self._pods.clear()
        for keys, pod in frequent:
            pod.count /= 2
            pod.mib /= 2
            pod.is_dropped = pod.count < 1 or len(self._pods) > self._most_kinds // 2
            if not pod.is_dropped:
                self._pods[keys] = pod


def _demand(
    kinds: Sequence[_Kind], free_places: Mapping[NodeClass, FreePlaces]
) -> Mapping[NodeClass, Mapping[Size, float]]:
    """What a place on each class is worth, by size."""
    free = {node_class: places.slices for node_class, places in free_places.items()}
    requested = sum([kind.count * kind.slices for kind in kinds])
    per_slice = sum(free.values()) / max(1.0, requested)
    density = dict.fromkeys(free_places, 0.0)
    wanted: dict[NodeClass, dict[Size, list[float]]] = {each: {} for each in free_places}
    for kind in kinds:
        by_name = kind.count * kind.slices * per_slice / max(1, sum([free[each] for each in kind.accepted]))
        for node_class in kind.accepted:
            density[node_class] += by_name
        places = sum([free_places[each].of(size) for each, size in kind.sizes.items()])
        scarcity = kind.count * per_slice / places if places else 1.0
        for node_class, size in kind.sizes.items():
            entry = wanted[node_class].setdefault(size, [0.0, 0.0])
            entry[0] += scarcity
            entry[1] += scarcity * kind.slices
    return {each: _worth_of_places(by_size, density[each]) for each, by_size in wanted.items()}


def _between(
    expected: Mapping[Size, float], in_advance: Mapping[Size, float], doubt: float
) -> Mapping[Size, float]:
    """What a place is worth, by size, if what was learnt may be wrong: the less was learnt, the likelier.

    Args:
        expected: what it is worth to all pods that are expected.
        in_advance: what it is worth to those that are expected in advance, before anything is learnt.
        doubt: the weight of these.
    """
    sizes = {*expected, *in_advance}
    return {size: (1 - doubt) * expected.get(size, 0.0) + doubt * in_advance.get(size, 0.0) for size in sizes}


def _worth_of_places(wanted: Mapping[Size, Sequence[float]], density: float) -> Mapping[Size, float]:
    """What a place for each size is worth on one class, in slices: the more, the scarcer places are.

    Args:
        wanted: by size, the pods that are expected per place, and the slices that they request.
        density: slices that are expected per free slice of the class, whatever the size.
    """
    worth = {
        size: slices * min(1.0, pods) ** _SHARP / pods for size, (pods, slices) in wanted.items() if pods
    }
    worth[1, 1] = worth.get((1, 1), 0.0) + min(_MOST, density) ** _SHARP
    return worth


def _sizes(fraction: Fraction) -> list[Size]:
    """The sizes that a pod counts as; one on parts of several GPUs counts once for each."""
    if fraction.is_apart:
        return [(slices, 1) for slices in fraction.split]
    if fraction.parts != 1:
        return [(fraction.slices_on_each, 1)] * fraction.parts
    return [(fraction.slices_on_each, fraction.gpus)]


def _size_on(gpu_mib: int | None, size: Size, mib: int, slices_per_gpu: int) -> Size | None:
    """The size on GPUs of so many MiB; None if requested MiB do not fit."""
    if not mib:
        return size
    if gpu_mib is None or gpu_mib < mib:
        return None
    return -(-mib * slices_per_gpu // gpu_mib), size[1]


def _mean_mib(classes: Iterable[NodeClass]) -> float:
    """MiB of a GPU, on average."""
    known = [(each.capacity, each.sample.gpu_mib) for each in classes if each.sample.gpu_mib]
    return max(
        1.0, sum([slices * mib for slices, mib in known]) / max(1, sum([slices for slices, _ in known]))
    )


def _by_known_keys(classes: Iterable[NodeClass]) -> dict[ClassKey, list[NodeClass]]:
    """Classes by their keys, and by the keys of the classes from which they were split off."""
    known: dict[ClassKey, list[NodeClass]] = {}
    for node_class in classes:
        shape, taints, labels = node_class.key
        for count in range(len(labels) + 1):
            known.setdefault((shape, taints, labels[:count]), []).append(node_class)
    return known
