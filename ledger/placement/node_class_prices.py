"""The cost of a slice on each class of nodes, beyond its worth, by the recent pods that accept the class.

Nodes of a class are alike (ledger/placement/node_index.py). Each arrived pod adds its slices to a load, which
is spread over the free slices of the classes that it accepts. If pods name no labels, all loads are equal,
and cost nothing. A class that more pods name than others has a higher load, so pods that could go anywhere
avoid it.

There are two kinds of load. By labels and taints only, a class costs more the more pods name it. By GPUs and
CPU too, a class costs only if its load is above average, like the few nodes that can hold the largest pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.placement.candidates import CandidateFinder, Candidates
from ledger.placement.node_class import ClassKey, NodeClass, cpu_steps
from ledger.placement.node_class_load import NodeClassLoad
from ledger.placement.packing import UNIT
from ledger.placement.work import TooMuchWorkError
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction

MAX_LOADS = 256
"""Sets of classes that are distinguished for each kind of load, because users choose what their pods
accept."""
_PER_NAMED = 3 * UNIT
"""Cost of a slice per average load of pods that name its class."""
_PER_OVERLOAD = UNIT // 2
"""Cost of a slice per average load beyond the first, of pods that fit there."""
_MAX_LOAD = 3 * UNIT
"""Limit for loads: three times the average. UNIT is the average."""
_SPREAD = 8
"""Slices that are added to the free ones of every class, so that a full class has a finite cost."""
_UNSEEN = 64
"""Slices of a prior load of each class, in proportion to the share of pods that name classes.

Without it, a small class that no pod names at first would be filled before any pod names it.
"""
_REMEMBERED = 2**18
"""Slices after which all loads are halved."""
_Loads = dict[frozenset[ClassKey], NodeClassLoad]


class NodeClassPrices:
    """Recent pods by the classes that they accept, for GPUs with one number of slices."""

    def __init__(self) -> None:
        self._named: _Loads = {}
        self._fitting: _Loads = {}
        self._arrived = 0

    def learn(self, request: PlacementRequest, finder: CandidateFinder) -> None:
        """Count one arrived pod. The next `price` updates the cost of classes.

        A pod whose demands take too long to compare with all nodes is ignored.
        """
        try:
            loads = self._loads_of(request, finder)
        except TooMuchWorkError:
            return
        slices = request.share.fraction.slices
        loads[0].slices += slices
        loads[1].slices += slices
        self._arrived += slices

    def _loads_of(
        self, request: PlacementRequest, finder: CandidateFinder
    ) -> tuple[NodeClassLoad, NodeClassLoad]:
        candidates, step = finder.select(request), cpu_steps(request.share.cpu_milli)
        loads = candidates.loads.get(step)
        if loads is None or loads[0].is_dropped or loads[1].is_dropped:
            loads = candidates.loads[step] = self._loads(request, candidates, finder)
        return loads

    def price(self, classes: Sequence[NodeClass]) -> None:
        """Set the cost of a slice for each class; `classes` are all from which the pods can choose."""
        if self._arrived >= _REMEMBERED or max(len(self._named), len(self._fitting)) >= MAX_LOADS:
            self._halve()
        free = {node_class: node_class.free() + _SPREAD for node_class in classes}
        named, fitting = _spread(self._named, free, _UNSEEN), _spread(self._fitting, free, 0)
        least = min(named.values(), default=0)
        for node_class in classes:
            by_name = (named[node_class] - least) * _PER_NAMED // UNIT
            by_fit = max(0, fitting[node_class] - UNIT) * _PER_OVERLOAD // UNIT
            node_class.set_price(by_name + by_fit)

    def _loads(
        self, request: PlacementRequest, candidates: Candidates, finder: CandidateFinder
    ) -> tuple[NodeClassLoad, NodeClassLoad]:
        per_gpu = request.share.fraction.slices_per_gpu
        one_gpu = request.with_share(fraction=Fraction(per_gpu, per_gpu))
        step = cpu_steps(request.share.cpu_milli)
        fitting = [node_class for node_class in candidates.classes if node_class.cpu_steps >= step]
        return _load(self._named, finder.select(one_gpu).classes), _load(self._fitting, fitting)

    def _halve(self) -> None:
        """Halve all loads, so that older pods count less, and drop empty ones."""
        self._arrived //= 2
        for loads in (self._named, self._fitting):
            for keys, load in list(loads.items()):
                load.slices //= 2
                if not load.slices:
                    load.is_dropped = True
                    del loads[keys]


def _load(loads: _Loads, classes: Iterable[NodeClass]) -> NodeClassLoad:
    keys = frozenset([node_class.key for node_class in classes])
    load = loads.get(keys)
    if load is None:
        load = NodeClassLoad()
        if len(loads) < MAX_LOADS:
            loads[keys] = load
        else:
            load.is_dropped = True
    return load


def _spread(loads: _Loads, free: dict[NodeClass, int], unseen: int) -> dict[NodeClass, int]:
    """Load per free slice of each class, relative to the average (UNIT)."""
    density = dict.fromkeys(free, 0)
    known = _by_known_keys(free)
    arrived = max(1, sum(load.slices for load in loads.values()))
    average = sum(free.values()) * UNIT // arrived
    selective = 0
    for keys, load in loads.items():
        accepting = {node_class for key in keys for node_class in known.get(key, ())}
        room = sum(free[node_class] for node_class in accepting)
        selective += load.slices if len(accepting) < len(free) else 0
        for node_class in accepting:
            density[node_class] += load.slices * average // room
    for node_class, room in free.items():
        density[node_class] += unseen * selective * average // (room * arrived)
    return {node_class: min(load, _MAX_LOAD) for node_class, load in density.items()}


def _by_known_keys(classes: Iterable[NodeClass]) -> dict[ClassKey, list[NodeClass]]:
    """Classes by their keys, and by the keys of the classes from which they were split off."""
    known: dict[ClassKey, list[NodeClass]] = {}
    for node_class in classes:
        shape, taints, labels = node_class.key
        for count in range(len(labels) + 1):
            known.setdefault((shape, taints, labels[:count]), []).append(node_class)
    return known
