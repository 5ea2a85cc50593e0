"""A node with any number of pods is shown by the largest, in bounded work, with sums that stay right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ledger import view as view_module
from ledger.crowd import CROWDED
from ledger.ledger import Ledger
from ledger.totals import totals_of
from ledger.view import MAX_SHARES, MAX_UNKNOWN_GPUS, NodeView, Unlisted
from modes.facts import PodFact
from tests.ledger.cluster import gpu_node, holder, ledger_of

PODS = 10_000


def piled_up(pods: int, *, gpus: int = 4) -> Ledger:
    """A node of a dead kubelet, with pods that name it."""
    ledger = ledger_of(gpu_node("dead", gpus, usable=False))
    for number in range(pods):
        ledger.set_pod(pile(number, gpus))
    return ledger


def pile(number: int, gpus: int = 4) -> PodFact:
    return holder(f"p{number:05}", "dead", (number % gpus, 1 + number % 7), namespace="team")


def shown(ledger: Ledger) -> NodeView:
    view = ledger.node("dead")
    assert view is not None
    return view


@pytest.mark.parametrize("pods", [10, CROWDED, CROWDED + 1, 5 * CROWDED])
def test_few_are_listed_and_the_sums_are_those_of_all(pods: int) -> None:
    ledger = piled_up(pods)
    view = shown(ledger)
    assert sum(len(gpu.shares) for gpu in view.gpus) <= min(pods, MAX_SHARES)
    for gpu in view.gpus:
        held = sum(1 + number % 7 for number in range(pods) if number % 4 == gpu.index)
        assert (gpu.used, gpu.over) == (held, max(0, held - 8))
        assert len(gpu.shares) + (gpu.unlisted.count if gpu.unlisted else 0) == len(
            range(gpu.index or 0, pods, 4)
        )
    totals = totals_of(ledger._node_index.accounts["dead"])
    assert (totals.used, totals.over) == (
        sum(gpu.used for gpu in view.gpus),
        sum(gpu.over for gpu in view.gpus),
    )


def test_the_largest_are_listed_by_name_whatever_order_they_came_in() -> None:
    ledger, backwards = piled_up(2000), ledger_of(gpu_node("dead", 4, usable=False))
    for number in reversed(range(2000)):
        backwards.set_pod(pile(number))
    for number in range(2000, 2500):
        ledger.set_pod(pile(number))
        ledger.remove_pod(pile(number).key)
    assert shown(ledger) == shown(backwards)
    for gpu in shown(ledger).gpus:
        assert {share.slices for share in gpu.shares} == {6, 7}
        names = [share.name for share in gpu.shares]
        assert names == sorted(names)


def test_all_are_listed_again_when_most_have_gone() -> None:
    ledger = piled_up(5 * CROWDED)
    for number in range(20, 5 * CROWDED):
        ledger.remove_pod(pile(number).key)
    assert shown(ledger) == shown(piled_up(20))
    assert not [gpu for gpu in shown(ledger).gpus if gpu.unlisted]


def test_one_more_of_ten_thousand_pods_makes_no_walk_over_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, made = piled_up(PODS), 0

    class Claims(dict[Any, Any]):
        def values(self) -> Any:
            return counting(super().values())

        def items(self) -> Any:
            return counting(super().items())

        def __iter__(self) -> Any:
            return counting(super().__iter__())

    def counting(found: Iterable[Any]) -> Iterator[Any]:
        nonlocal made
        for each in found:
            made += 1
            yield each

    account = ledger._node_index.accounts["dead"]
    account.claims = Claims(account.claims)
    holding = view_module.Holding

    def counted(*args: Any) -> Any:
        nonlocal made
        made += 1
        return holding(*args)

    monkeypatch.setattr(view_module, "Holding", counted)
    ledger.set_pod(pile(PODS))
    ledger.totals()
    shown(ledger)
    ledger.replicas("dead")
    assert made <= 4 * MAX_SHARES


def test_of_gpus_that_a_node_does_not_have_few_are_listed_and_all_are_counted() -> None:
    ledger = ledger_of(gpu_node("dead", 2, usable=False))
    for index in range(500):
        ledger.set_pod(holder(f"p{index}", "dead", (index, 3)))
    view = shown(ledger)
    assert [gpu.index for gpu in view.gpus] == list(range(2 + MAX_UNKNOWN_GPUS))
    rest = 500 - 2 - MAX_UNKNOWN_GPUS
    assert view.unlisted == Unlisted(rest, 3 * rest, 3 * rest)
    assert ledger.totals().over == sum(gpu.over for gpu in view.gpus) + 3 * rest
