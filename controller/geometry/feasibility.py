"""On which nodes a waiting pod could run if their cards were divided for it.

Answers are cached by what pods request, so equal pods cost one search, and are updated for nodes that have
changed. Comparisons are counted: what exceeds the limit is searched in a later step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.geometry.division import MAX_STEPS, Room, divisions
from controller.geometry.infeasible import never_fits
from controller.geometry.model import Amounts, MigNode, Steps
from controller.watch.mig_facts import MigPod
from controller.watch.resources import SeenPod
from kube.matching import TolerationIndex
from kube.scheduling import Constraints, Taint
from ledger.placement.label_index import LabelIndex, NodeSet, TooMuchWorkError, Work
from modes.mig_profiles import MigCard

MAX_WORK = 300_000
"""Comparisons in one step of the loop: some tenths of a second."""
MAX_CARD_ANSWERS = 10_000
"""Cached answers to whether a node's cards can hold a request; all are dropped beyond this number."""
_SEARCH_WORK = 100
"""Cost of finding the changed nodes and the errors of a request."""
Shape = tuple[Amounts, bytes, int, int]
"""What a pod requests: instances, a digest of its constraints, milli-CPU and bytes of memory."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node that is divided on demand could offer a pod."""

    name: str
    card: MigCard
    cards: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cpu_milli: int
    memory_bytes: int


@dataclass(slots=True)
class Answer:
    """Where pods of one shape could run."""

    nodes: frozenset[str]
    problem: str | None
    """What is wrong with the request itself, so that no node can serve it."""
    version: int


def shape_of(pod: SeenPod, mig: MigPod) -> Shape:
    """Return what a pod requests, as the key of its answers."""
    return mig.wants, mig.digest, pod.fact.cpu_milli, pod.fact.memory_bytes


class _TooMuchError(Exception):
    """A pod's node constraints need too many comparisons; the text is for the pod's owner."""


class Feasibility:
    """Answers for the nodes of the last `update`."""

    def __init__(self) -> None:
        self._offers: dict[str, NodeOffer] = {}
        self._changed: dict[str, int] = {}
        """The version in which each node last changed."""
        self._version = 0
        self._largest: dict[MigCard, int] = {}
        self._answers: dict[Shape, Answer] = {}
        self._holds: dict[tuple[MigCard, int, Amounts], bool] = {}
        self._labels = LabelIndex()

    def update(self, offers: Iterable[NodeOffer]) -> None:
        """Replace the nodes by the current ones, and note which of them changed."""
        now = {offer.name: offer for offer in offers}
        if self._offers.keys() - now.keys():
            self._answers.clear()
            self._changed = {name: version for name, version in self._changed.items() if name in now}
        changed = [name for name, offer in now.items() if self._offers.get(name) != offer]
        self._enter(now, changed)
        if changed:
            self._version += 1
            self._changed |= dict.fromkeys(changed, self._version)
        self._offers = now
        self._largest = {}
        for offer in now.values():
            self._largest[offer.card] = max(self._largest.get(offer.card, 0), offer.cards)
        if len(self._holds) > MAX_CARD_ANSWERS:
            self._holds.clear()

    def _enter(self, now: Mapping[str, NodeOffer], changed: Iterable[str]) -> None:
        """Update the index of labels."""
        for name in self._offers.keys() - now.keys():
            self._labels.remove(self._offers[name])
        for name in changed:
            if name in self._offers:
                self._labels.remove(self._offers[name])
            self._labels.add(now[name])

    def known(self, shape: Shape) -> Answer | None:
        """Return the answer for pods of a shape if it is cached and current."""
        answer = self._answers.get(shape)
        return answer if answer is not None and answer.version == self._version else None

    def answer(self, shape: Shape, mig: MigPod, work: Steps) -> Answer:
        """Return the nodes on which pods of a shape could run, and count the comparisons."""
        constraints = mig.constraints or Constraints()
        known = self._answers.get(shape)
        since = known.version if known is not None else -1
        work.spend(_SEARCH_WORK + len(self._offers) // 8)
        offers = [offer for name, offer in self._offers.items() if self._changed[name] > since]
        nodes = known.nodes - {offer.name for offer in offers} if known is not None else frozenset[str]()
        try:
            nodes |= {offer.name for offer in self._possible(shape, constraints, offers, work)}
            problem = None if nodes else never_fits(shape[0], self._largest)
        except _TooMuchError as refused:
            nodes, problem = frozenset(), str(refused)
        found = self._answers[shape] = Answer(nodes, problem, self._version)
        return found

    def keep(self, shapes: Collection[Shape]) -> None:
        """Drop the answers for all but these shapes."""
        self._answers = {shape: each for shape, each in self._answers.items() if shape in shapes}

    def _possible(
        self, shape: Shape, constraints: Constraints, offers: Sequence[NodeOffer], work: Steps
    ) -> Iterator[NodeOffer]:
        """Yield the given nodes that could run pods of a shape.

        Raises:
            _TooMuchError: the pod's node constraints need too many comparisons.
        """
        work.spend(len(offers))
        kinds = {(offer.card.name, offer.cards): offer for offer in offers}
        holds = {
            kind: self._can_hold(offer.card, offer.cards, shape[0], work) for kind, offer in kinds.items()
        }
        roomy = [each for each in offers if holds[each.card.name, each.cards] and _has_room(shape, each)]
        if not roomy:
            return
        matching, tolerated = self._matching(constraints, work), dict[tuple[Taint, ...], bool]()
        work.spend(len(constraints.tolerations))
        tolerations = TolerationIndex(constraints.tolerations)
        for offer in roomy:
            if matching >> self._labels.numbers[offer.name] & 1:
                if offer.taints not in tolerated:
                    work.spend(1 + len(offer.taints))
                    tolerated[offer.taints] = tolerations.tolerates(offer.taints)
                if tolerated[offer.taints]:
                    yield offer

    def _matching(self, constraints: Constraints, work: Steps) -> NodeSet:
        """Return the nodes that a pod's selector and affinity accept.

        Raises:
            _TooMuchError: they need too many comparisons.
        """
        compared = Work(len(self._offers))
        try:
            return self._labels.matching(constraints, compared)
        except TooMuchWorkError as error:
            raise _TooMuchError(compared.refusal().why) from error
        finally:
            work.spend(min(compared.spent, compared.most))

    def _can_hold(self, card: MigCard, cards: int, wants: Amounts, work: Steps) -> bool:
        """Whether this many empty cards can be divided for a request."""
        key = card, cards, wants
        if key not in self._holds:
            empty, own = Room(MigNode("", card, ((),) * cards)), Steps(MAX_STEPS)
            found = next(divisions(empty, wants, own), None)
            # If there are too many ways to try, it counts as possible.
            self._holds[key] = found is not None or own.is_over
            work.spend(MAX_STEPS - own.left)
        return self._holds[key]


def _has_room(shape: Shape, offer: NodeOffer) -> bool:
    """Whether an empty node has enough CPU and memory for a pod."""
    _, _, cpu_milli, memory_bytes = shape
    return cpu_milli <= offer.cpu_milli and memory_bytes <= offer.memory_bytes
