"""Of nodes that are equally good that one is taken whose GPUs for the pod are nearest to each other."""

from __future__ import annotations

import pytest

from ledger.placement import best_gpus as choosing
from ledger.placement import nearest as node_choice
from ledger.placement.nearest import MAX_ASKED
from modes.fraction import Fraction
from tests.ledger.cluster import changed, eighths, gpu_node, holder, ledger_of, request_of
from tests.ledger.placement.test_numa import TWO_HALVES, numa_node, placed


def test_of_nodes_that_are_equally_good_one_with_the_gpus_on_one_numa_node_is_taken():
    apart = [numa_node(f"a{number}", 0, 1, 0, 1) for number in range(3)]
    held = [holder(f"{node.name}-{gpu}", node.name, (gpu, 8)) for node in apart for gpu in (0, 3)]
    near = [holder(f"b-{gpu}", "b", (gpu, 8)) for gpu in (0, 1)]
    ledger = ledger_of(*apart, numa_node("b", 0, 0, 1, 1), holders=(*held, *near))
    answer = placed(ledger, request_of(Fraction(16, 8)))
    assert (answer.node, answer.indices) == ("b", (2, 3))
    # A node that is better for the pods to come goes first.
    held.append(holder("more", "a1", (1, 8)))
    ledger = ledger_of(*apart, numa_node("b", 0, 0, 1, 1), holders=tuple(held))
    assert placed(ledger, request_of(Fraction(16, 8))).node == "a0"


def test_replicas_are_spread_over_nodes_before_numa_nodes_are_looked_at():
    ledger = ledger_of(numa_node("a", 0, 1), numa_node("b", 0, 0, 1, 1))
    request = request_of(Fraction(2, 8, 2), owner="train", place="spread")
    first = placed(ledger, changed(request, reservation="r-1"))
    second = placed(ledger, changed(request, reservation="r-2"))
    assert {first.node, second.node} == {"a", "b"}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was looked at for the sake of NUMA nodes, in order."""
    seen: list[str] = []
    on_fewest, best_gpus, best = choosing.on_fewest, node_choice.best_gpus, node_choice.best

    def compare(*given):
        seen.append("sets")
        return on_fewest(*given)

    def ask(account, *given):
        seen.append(account.name)
        return best_gpus(account, *given)

    def search(*given, **more):
        seen.append("search")
        return best(*given, **more)

    monkeypatch.setattr(choosing, "on_fewest", compare)
    monkeypatch.setattr(node_choice, "best_gpus", ask)
    monkeypatch.setattr(node_choice, "best", search)
    return seen


def test_pods_of_one_gpu_and_clusters_that_tell_no_numa_nodes_pay_nothing(looks):
    ledger = ledger_of(numa_node("a", 0, 1, 0, 1), numa_node("b", 0, 1))
    for slices in (1, 4, 8):
        placed(ledger, eighths(slices))
    placed(ledger, request_of(Fraction(6, 8, split=(4, 2))))
    ledger = ledger_of(gpu_node("a", 4), gpu_node("b", 8))
    placed(ledger, request_of(TWO_HALVES))
    placed(ledger, request_of(Fraction(16, 8), owner="train", place="spread"))
    assert looks == []


@pytest.mark.parametrize("few", [True, False])
def test_of_many_nodes_that_are_equally_good_a_bounded_number_is_looked_at(looks, few, monkeypatch):
    names = [f"n-{number:04}" for number in range(10 * MAX_ASKED)]
    ledger = ledger_of(*(numa_node(name, 0, 1) for name in (names[:8] if few else names)))
    is_fewer, calls = node_choice._Spans.is_fewer, []
    monkeypatch.setattr(
        node_choice._Spans, "is_fewer", lambda *given: calls.append(given) or is_fewer(*given)
    )
    placed(ledger, request_of(TWO_HALVES, reservation="r"))
    assert len(calls) <= 2 * MAX_ASKED
    asked = [each for each in looks if each not in {"sets", "search"}]
    assert len(asked) == len({*asked}) == (8 if few else MAX_ASKED)
    assert looks.count("search") == 1
