"""Selects the waiting pods that one plan looks at: those that some node could run, a share per namespace.

Namespaces take turns: each gives its oldest pod, then its next one, until there are enough. A pod that no
node could run is skipped; if that took a search, it costs its namespace a turn.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from controller.geometry.feasibility import Feasibility, Shape, shape_of
from controller.geometry.model import MigRequest, Steps
from controller.geometry.planner import MAX_REQUESTS, Turns, turn_key
from controller.watch.mig_facts import MigPod
from controller.watch.resources import SeenPod
from service.turns import in_turn

MAX_NAMED = 1000
"""Pods that no card can ever serve and that are kept with the reason; the others are only counted."""
MAX_NAMED_OF_NAMESPACE = 100
"""The same for one namespace."""


@dataclass(slots=True)
class Selection:
    """The selected pods, and what the selection found."""

    requests: list[MigRequest] = field(default_factory=list)
    impossible_count: int = 0
    """Pods that no card can ever serve."""
    seen: set[str] = field(default_factory=set)
    """Namespaces with at least one pod that was looked at."""
    is_cut: bool = False
    """Whether some namespaces were not looked at."""
    shapes: set[Shape] = field(default_factory=set)
    """Shapes of the pods that were looked at."""
    _named: dict[str, list[tuple[SeenPod, str]]] = field(default_factory=dict)

    def set_aside(self, pod: SeenPod, problem: str) -> None:
        """Record a pod that no card can ever serve."""
        self.impossible_count += 1
        named = self._named.setdefault(pod.fact.namespace, [])
        if len(named) < MAX_NAMED_OF_NAMESPACE:
            named.append((pod, problem))

    @property
    def impossible(self) -> list[tuple[SeenPod, str]]:
        """Some of these pods with the reason: one of each namespace, then the next one of each."""
        named = chain.from_iterable(self._named.values())
        return in_turn(named, lambda each: each[0].fact.namespace, {})[:MAX_NAMED]


_Entry = tuple[str, tuple[str, str], SeenPod, MigPod]


def select(
    waiting: Iterable[SeenPod],
    feasibility: Feasibility,
    turns: Turns,
    work: Steps,
    skips: Callable[[str], bool] = lambda _: False,
) -> Selection:
    """Select among the waiting pods, by uid, except those that `skips` excludes.

    When the steps are used up, only pods with a cached answer are selected. The next selection starts with
    the namespaces that this one missed, if the caller records the turns of the others.
    """
    selection = Selection()
    queues = _queues(waiting, feasibility, skips, selection)
    left = sorted(queues, key=lambda each: turn_key(each, queues[each][0][0], turns))
    while left and len(selection.requests) < MAX_REQUESTS:
        for namespace in left[: MAX_REQUESTS - len(selection.requests)]:
            _take(queues[namespace], feasibility, work, selection)
        left = [namespace for namespace in left if queues[namespace]]
    selection.is_cut = len(selection.seen) < len(queues)
    return selection


def _queues(
    waiting: Iterable[SeenPod], feasibility: Feasibility, skips: Callable[[str], bool], selection: Selection
) -> dict[str, list[_Entry]]:
    """Return pods by namespace, each a heap with the oldest first, without those known to fit nowhere.

    There may be any number of those, and ordering them would cost most of the time.
    """
    queues = defaultdict[str, list[_Entry]](list)
    for pod in waiting:
        mig = pod.mig
        if mig is None or mig.constraints is None or skips(mig.uid):
            continue
        shape = shape_of(pod, mig)
        known = feasibility.known(shape)
        if known is None or known.nodes:
            queues[pod.fact.namespace].append((mig.created, pod.fact.key, pod, mig))
            continue
        selection.shapes.add(shape)
        if known.problem is not None:
            selection.set_aside(pod, known.problem)
    for queue in queues.values():
        heapq.heapify(queue)
    return dict(queues)


def _take(queue: list[_Entry], feasibility: Feasibility, work: Steps, selection: Selection) -> None:
    """Take pods from a queue until one is selected or one has cost a search."""
    while queue:
        _, key, pod, mig = heapq.heappop(queue)
        shape = shape_of(pod, mig)
        known = feasibility.known(shape)
        if known is None and work.is_over and selection.seen:
            queue.clear()
            return
        answer = known or feasibility.answer(shape, mig, work)
        selection.seen.add(key[0])
        selection.shapes.add(shape)
        if answer.nodes:
            selection.requests.append(_request(pod, mig, answer.nodes))
            return
        if answer.problem is not None:
            selection.set_aside(pod, answer.problem)
        if known is None:
            return


def _request(pod: SeenPod, mig: MigPod, nodes: frozenset[str]) -> MigRequest:
    fact = pod.fact
    return MigRequest(fact.key, mig.wants, mig.created, nodes, fact.cpu_milli, fact.memory_bytes, mig.uid)
