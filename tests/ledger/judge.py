"""Whether an answer of the ledger is right, by the slow checker."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.ask import Ask, Misfit, Placement
from ledger.demand import Worth
from ledger.facts import NodeFact, PodFact
from ledger.ledger import Ledger
from tests.ledger.checker import SlowNode, could_ever_hold, has_room, score


def worth_for(ledger: Ledger, ask: Ask) -> Worth:
    """What slices are worth to the ledger now: learnt, and so shared with the checker."""
    return ledger._demand_of(ask).worth


def slow_nodes(nodes: Iterable[NodeFact], pods: Iterable[PodFact], ledger: Ledger) -> dict[str, SlowNode]:
    """Nodes with what pods and reservations took, added up from the lists."""
    slow = {node.name: SlowNode(node) for node in nodes}
    ledger._fleet.settle()
    for name, account in ledger._fleet.accounts.items():
        if name in slow and account.kind is not None:
            slow[name].slice_cost = account.kind.slice_cost
    reservations = ledger._reservations._by_name.values()
    recent = [many.claim for many in ledger._recent.every()]
    for claim in [*(pod for pod in pods if not pod.is_over), *reservations, *recent]:
        on = claim.node or claim.promised_node
        if on in slow:
            slow[on].take(claim)
    return slow


def assert_right(answer: object, ask: Ask, slow: dict[str, SlowNode], worth: Worth) -> None:
    """The answer is a misfit only if no node fits ever, a node only if it is the best with room now."""
    eligible = [node for node in slow.values() if could_ever_hold(node.fact, ask)]
    fitting = {node.fact.name: score(node, ask, worth) for node in eligible if has_room(node, ask)}
    if not eligible:
        assert isinstance(answer, Misfit)
        return
    assert isinstance(answer, Placement)
    if answer.node is None:
        assert not fitting
        _assert_waits_where_it_can(answer, ask, eligible)
        return
    assert fitting[answer.node] == max(fitting.values())
    _assert_has_room(answer, ask, slow[answer.node], worth)


def _assert_waits_where_it_can(answer: Placement, ask: Ask, eligible: list[SlowNode]) -> None:
    kinds = [{index for index, _ in node.fact.gpus} for node in eligible]
    assert len(answer.indices) == (0 if ask.mode == "pooled" else ask.fraction.gpus)
    assert any(set(answer.indices) <= indices for indices in kinds)


def _assert_has_room(answer: Placement, ask: Ask, node: SlowNode, worth: Worth) -> None:
    assert answer.gpu_mib == (node.fact.gpu_mib or 0)
    if ask.mode == "pooled":
        assert answer.indices == ()
        return
    free, each = node.free(), ask.fraction.slices_on_each
    assert len(set(answer.indices)) == ask.fraction.gpus
    assert all(free[index] >= each for index in answer.indices)
    lost = sorted(worth.gpu[v] - worth.gpu[v - each] for v in free.values() if v >= each)
    chosen = [worth.gpu[free[index]] - worth.gpu[free[index] - each] for index in answer.indices]
    assert sorted(chosen) == lost[: ask.fraction.gpus]
