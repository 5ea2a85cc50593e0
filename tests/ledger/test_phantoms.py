"""Reservations whose pods the API server refused take nothing from honest pods."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.accounts import NodeAccount
from ledger.ledger import Ledger
from ledger.placement import contested
from ledger.placement.best_node import score
from ledger.placement_request import Placement
from ledger.reservations import COUNTED_SECONDS, LIFETIME_SECONDS
from modes.facts import PodFact
from modes.fraction import Fraction
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, request_of
from tests.ledger.snapshot import books

NODES, GPUS, FULL = 8, 4, (0, 1)
"""On every node the GPUs of the indices FULL are held for good, the others are free for honest pods."""
HALF = 4


@dataclass
class Cluster:
    """A ledger, and a scheduler that binds a pod wherever its index has room next to bound pods."""

    ledger: Ledger = field(default_factory=Ledger)
    now: float = 0.0
    misled: int = 0
    """Honest pods with an index that was full on every node while another one had room."""
    _bound: Counter[tuple[str, int]] = field(default_factory=Counter)
    _due: list[tuple[float, int, PodFact | None, Placement]] = field(default_factory=list)
    _pods: int = 0

    def __post_init__(self) -> None:
        for number in range(NODES):
            name = f"n{number}"
            self.ledger.set_node(gpu_node(name, GPUS))
            for index in FULL:
                self._bound[name, index] = 8
                self.ledger.set_pod(holder(f"{name}-{index}", name, (index, 8), namespace="old"))

    def phantom(self, namespace: str = "evil", **changes: object) -> None:
        """Place a pod that the API server refuses afterwards."""
        self._pods += 1
        request = eighths(HALF, namespace=namespace, reservation=f"r{self._pods}", **changes)
        self.ledger.place(request, self.now)

    def honest(self, shows_up: float = 0.1, lasts: float = 1.5, namespace: str = "team") -> Placement:
        """Place a pod that shows up after a while, and ends."""
        self._pods += 1
        request = eighths(HALF, namespace=namespace, reservation=f"r{self._pods}", pod=f"p{self._pods}")
        answer = self.ledger.place(request, self.now)
        assert isinstance(answer, Placement)
        free = {index for index in range(GPUS) if self._node_with_room(index) is not None}
        self.misled += bool(free) and answer.indices[0] not in free
        heapq.heappush(self._due, (self.now + shows_up, self._pods, None, answer))
        heapq.heappush(self._due, (self.now + shows_up + lasts, -self._pods, None, answer))
        return answer

    def run_until(self, until: float) -> None:
        """Let pods show up and end."""
        while self._due and self._due[0][0] <= until:
            self.now, number, _, answer = heapq.heappop(self._due)
            self._show(number, answer) if number > 0 else self._end(-number)
        self.now = until
        self.ledger.expire(self.now)

    def _show(self, number: int, answer: Placement) -> None:
        index = answer.indices[0]
        node = self._node_with_room(index)
        if node is not None:
            self._bound[node, index] += HALF
        fact = holder(f"p{number}", node, (index, HALF), namespace="team", reservation=f"r{number}")
        self.ledger.set_pod(fact)

    def _end(self, number: int) -> None:
        known = self.ledger._pods.get(("team", f"p{number}"))
        assert known is not None
        if known.node is not None:
            self._bound[known.node, known.gpus[0][0]] -= HALF
        self.ledger.remove_pod(known.key)

    def _node_with_room(self, index: int) -> str | None:
        names = (f"n{number}" for number in range(NODES))
        return next((name for name in names if self._bound[name, index] + HALF <= 8), None)


def attacked(seconds: float, phantom_namespaces: tuple[str, ...], *, per_second: int = 100) -> Cluster:
    """249 honest halves, ten a second, among phantoms."""
    cluster = Cluster()
    for tick in range(int(seconds * per_second)):
        cluster.run_until(tick / per_second)
        cluster.phantom(phantom_namespaces[tick % len(phantom_namespaces)])
        if tick % 10 == 9 and tick < 2500 - 10:
            cluster.honest()
    return cluster


@pytest.mark.parametrize("namespaces", [("evil",), tuple(f"evil-{number}" for number in range(40))])
def test_phantoms_give_no_honest_pod_an_index_that_is_full(namespaces: tuple[str, ...]) -> None:
    assert attacked(25, namespaces).misled == 0


def test_those_that_a_stranger_names_after_the_honest_namespace_mislead_for_seconds_only() -> None:
    cluster = attacked(COUNTED_SECONDS + 1, ("team",))
    cluster.misled = 0
    for tick in range(600, 2400):
        cluster.run_until(tick / 100)
        cluster.phantom("team")
        if tick % 10 == 9:
            cluster.honest()
    assert cluster.misled == 0


@pytest.mark.parametrize("doubts", [True, False])
def test_two_hundred_pods_of_one_namespace_at_once_spread_as_if_all_came(*, doubts: bool) -> None:
    ledger = ledger_of(gpu_node("a", GPUS), holders=tuple(holder(f"h{i}", "a", (i, 8)) for i in FULL))
    ledger.doubts_reservations = doubts
    answers = [ledger.place(eighths(HALF, reservation=f"r{number}"), 0.0) for number in range(200)]
    waiting = Counter(
        answer.indices[0] for answer in answers if isinstance(answer, Placement) and answer.node is None
    )
    assert waiting == dict.fromkeys(range(GPUS), 49)


def test_pods_of_another_namespace_wait_where_there_is_only_something_reserved() -> None:
    ledger = ledger_of(gpu_node("a", 2), holders=(holder("h", "a", (0, 8)),))
    for number in range(2):
        ledger.place(eighths(HALF, namespace="evil", reservation=f"r{number}"), 0.0)
    waiting = [
        ledger.place(eighths(HALF, namespace="team", reservation=f"t{number}"), 0.0) for number in range(4)
    ]
    # Two have room if the others do not come; the next two do not, no matter which pods come.
    assert [answer.indices for answer in waiting if isinstance(answer, Placement)] == [(1,), (1,), (0,), (0,)]


def test_an_index_is_chosen_by_whole_nodes_where_several_gpus_are_asked_for() -> None:
    held = [holder("x", "a", (0, 8), (1, 8)), holder("y", "b", (0, 8), (2, 8))]
    ledger = ledger_of(gpu_node("a", GPUS), gpu_node("b", GPUS), holders=tuple(held))
    for number in range(40):
        ledger.place(eighths(HALF, namespace="evil", reservation=f"r{number}"), 0.0)
    answer = ledger.place(request_of(Fraction(16, 8), namespace="team"), 0.0)
    assert isinstance(answer, Placement)
    assert (answer.node, answer.indices) in {(None, (2, 3)), (None, (1, 3))}


def test_where_pods_fill_all_a_pod_waits_where_the_least_wait() -> None:
    full = tuple(holder(f"h{i}", "a", (i, 8)) for i in range(2))
    ledger = ledger_of(gpu_node("a", 2), holders=(*full, holder("w", None, (0, 4))))
    ledger.place(eighths(HALF, namespace="evil", reservation="r"), 0.0)
    ledger.place(eighths(HALF, namespace="evil", reservation="s"), 0.0)
    answer = ledger.place(eighths(HALF, namespace="team"), 0.0)
    assert isinstance(answer, Placement)
    assert answer.indices == (1,)


def test_room_is_given_back_after_seconds_and_the_late_pod_is_still_known_as_its_own() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    first = ledger.place(eighths(8, reservation="r"), 100.0)
    ledger.expire(100.0 + COUNTED_SECONDS)
    assert ledger.totals().used == 0
    assert ledger.is_reserved("r")
    second = ledger.place(eighths(8, reservation="s"), 105.0)
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert first.node == second.node == "a"
    ledger.set_pod(holder("late", None, (0, 8), reservation="r", promised_node="a"))
    assert not ledger.is_reserved("r")
    ledger.release("s")
    assert ledger.totals().used == 8
    ledger.remove_pod(("default", "late"))
    assert books(ledger) == books(ledger_of(gpu_node("a", 1)))


def test_nothing_ages_while_its_pod_may_have_shown_up_unheard_of() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ledger.place(eighths(8, reservation="r"), 100.0)
    ledger.expire(160.0, 104.9)
    assert ledger.totals().used == 8
    ledger.expire(160.0, 105.0)
    assert ledger.totals().used == 0


@pytest.mark.parametrize("nodes", [2, 40])
def test_of_equals_a_pod_gets_what_no_stale_reservation_named(nodes: int) -> None:
    ledger = ledger_of(*[gpu_node(f"n{number:02}", 2) for number in range(nodes)])
    first = ledger.place(eighths(8, reservation="r"), 0.0)
    second = ledger.place(eighths(8, reservation="s"), COUNTED_SECONDS)
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert (first.node, second.node) == ("n00", "n01")
    ledger.expire(LIFETIME_SECONDS)
    third = ledger.place(eighths(8), LIFETIME_SECONDS)
    assert isinstance(third, Placement)
    assert third.node == "n00"


def test_of_equal_gpus_of_a_node_and_of_equal_indices_to_wait_for_likewise() -> None:
    ledger = ledger_of(gpu_node("a", 2))
    ledger.place(eighths(8, reservation="r"), 0.0)
    here = ledger.place(eighths(8), COUNTED_SECONDS)
    assert isinstance(here, Placement)
    assert (here.node, here.indices) == ("a", (1,))
    full = ledger_of(gpu_node("a", 2), holders=(holder("x", "a", (0, 8)), holder("y", "a", (1, 8))))
    full.place(eighths(8, reservation="r"), 0.0)
    waits = full.place(eighths(8), COUNTED_SECONDS)
    assert isinstance(waits, Placement)
    assert (waits.node, waits.indices) == (None, (1,))


def test_a_step_ages_only_so_many_and_says_that_there_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.ledger_writer.MAX_ENDED_AT_ONCE", 10)
    ledger = ledger_of(*[gpu_node(f"n{number}", 4) for number in range(4)])
    for number in range(25):
        ledger.place(eighths(1, reservation=f"r{number}"), 0.0)
    steps = []
    while ledger.expire(COUNTED_SECONDS):
        steps.append(ledger.totals().used)
    assert steps == [15, 5]
    assert (ledger.totals().used, ledger.reservations) == (0, 25)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each node was looked at as it is without reservations."""
    looked = Counter[str]()

    def counted(account: NodeAccount, *args: Any) -> int | None:
        looked[account.name] += 1
        return score(account, *args)

    monkeypatch.setattr(contested, "score", counted)
    return looked


def test_only_so_many_nodes_are_looked_at_for_one_pod(looked: Counter[str]) -> None:
    count = contested.MAX_WITH_ROOM + 20
    ledger = ledger_of(*[gpu_node(f"n{number}", 1) for number in range(count)])
    for number in range(count):
        ledger.place(eighths(8, namespace=f"evil-{number}", reservation=f"r{number}"), 0.0)
    looked.clear()
    answer = ledger.place(eighths(8, namespace="team"), 0.0)
    assert isinstance(answer, Placement)
    assert answer.node is None
    assert sum(looked.values()) == contested.MAX_WITH_ROOM


def test_nodes_that_pods_fill_are_not_looked_at_for_what_little_is_reserved_there(
    looked: Counter[str],
) -> None:
    holders = tuple(holder(f"p{number}", f"n{number}", (0, 6)) for number in range(50))
    ledger = ledger_of(*[gpu_node(f"n{number}", 1) for number in range(50)], holders=holders)
    for number in range(100):
        ledger.place(eighths(1, namespace=f"evil-{number}", reservation=f"r{number}"), 0.0)
    assert isinstance(ledger.place(eighths(3, namespace="team"), 0.0), Placement)
    assert not looked
    ledger.place(eighths(2, namespace="team"), 0.0)
    assert looked
