"""Where a pod waits when nothing has room, and how that spreads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube.names import GPU_MEMORY_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.facts import UNLIMITED, NodeFact, PodFact
from modes.fraction import Fraction
from tests.effort import by_turns, examples
from tests.ledger.checker import could_ever_hold
from tests.ledger.cluster import changed, eighths, gpu_node, holder, ledger_of, request_of
from tests.ledger.strategies import asks, nodes


def full(*sizes: tuple[int, int]) -> Ledger:
    """Nodes of (GPUs, MiB), all full."""
    facts = [gpu_node(f"n{i}", count, mib) for i, (count, mib) in enumerate(sizes)]
    pods = [holder(f"{node.name}-{i}", node.name, (i, 8)) for node in facts for i, _ in node.gpus]
    return ledger_of(*facts, holders=tuple(pods))


def waits(ledger: Ledger, slices: int, name: str) -> Placement:
    answer = ledger.place(eighths(slices, namespace=name, reservation=name), 0.0)
    assert isinstance(answer, Placement)
    assert answer.node is None
    return answer


def test_pods_spread_over_indices_by_the_capacity_behind_each() -> None:
    ledger = full((4, 81920), (2, 81920))
    counts = Counter(waits(ledger, 4, f"p{i}").indices for i in range(30))
    assert counts == {(0,): 10, (1,): 10, (2,): 5, (3,): 5}


def test_a_pod_that_was_bound_waits_no_more() -> None:
    ledger = full((2, 81920))
    ledger.set_pod(holder("w", None, (0, 4), memory_values=("81920",)))
    assert waits(ledger, 4, "first").indices == (1,)
    ledger.set_pod(holder("w", "n0", (0, 4)))
    assert ledger.pending()[0].name == "first"
    assert waits(ledger, 4, "second").indices == (0,)


waiting_pods = st.builds(
    holder,
    st.integers(0, 99).map(str),
    st.none(),
    st.tuples(st.integers(0, 4), st.integers(1, 8)),
    pooled=st.sampled_from([0, 3]),
    memory_values=st.sampled_from([None, ("16384",), ("16384", "16390"), ("81920",)]),
)


nodes_without_agents = nodes().map(
    lambda node: msgspec.structs.replace(node, cards=(), card_models=(), pool_cards=())
)
"""What waits for single cards is tried in test_random_cards.py."""


@given(
    st.lists(nodes_without_agents, min_size=1, max_size=5),
    st.lists(waiting_pods, max_size=12, unique_by=lambda pod: pod.key),
    asks,
)
@example(
    [gpu_node("unlabelled", 3, labels={}, gpu_mib=None), gpu_node("labelled", 3, 16384)],
    [],
    request_of(Fraction(1, 8), writes_limits=False),
)
@settings(max_examples=examples(by_turns("ledger", usual=100, full=300)))
def test_no_index_of_any_node_has_less_waiting_for_its_capacity(some_nodes, waiting, request) -> None:
    facts = list({node.name: node for node in some_nodes}.values())
    request = changed(request, cpu_milli=2 * UNLIMITED)
    answer = ledger_of(*facts, holders=tuple(waiting)).place(request, 0.0)
    choices = list(slow_choices(facts, waiting, request))
    if not choices:
        assert isinstance(answer, Unschedulable)
        return
    assert isinstance(answer, Placement)
    assert min(choices)[1:] == (slow_share(answer.gpu_mib, request), answer.indices)


def slow_choices(
    facts: list[NodeFact], waiting: list[PodFact], request: PlacementRequest
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """For each node what waiting for the best of it means: what waits for its capacity, share, indices."""
    eligible = [fact for fact in facts if could_ever_hold(fact, request)]
    eligible = [fact for fact in eligible if fact.usable] or eligible
    for fact in eligible:
        share = slow_share(fact.gpu_mib, request)
        alike = [other for other in eligible if slow_share(other.gpu_mib, request) == share]
        accepted = slow_values(facts, share, request)
        counted = [pod for pod in waiting if pod.memory_values is None or accepted & {*pod.memory_values}]
        if request.share.mode == "pooled":
            pools = sum(other.pooled for other in alike)
            yield slow_load(sum(pod.pooled for pod in counted), pools, request), share, ()
            continue
        loads = []
        for index, _ in fact.gpus:
            capacity = sum(dict(o.gpus).get(index, 0) for o in alike if index not in o.cordoned)
            loads.append(
                (slow_load(sum(dict(p.gpus).get(index, 0) for p in counted), capacity, request), index)
            )
        best = sorted(loads)[: request.share.fraction.gpus]
        yield sum(load for load, _ in best), share, tuple(sorted(index for _, index in best))


def slow_values(facts: list[NodeFact], share: int, request: PlacementRequest) -> set[str]:
    """The memory labels that a pod of such a share accepts; none where memory does not bind."""
    if not binds_memory(request):
        return set()
    labelled = [fact for fact in facts if fact.gpu_mib is not None]
    return {fact.labels[GPU_MEMORY_LABEL] for fact in labelled if slow_share(fact.gpu_mib, request) == share}


def slow_share(gpu_mib: int | None, request: PlacementRequest) -> int:
    fraction = request.share.fraction
    return (gpu_mib or 0) * fraction.slices // fraction.slices_per_gpu if binds_memory(request) else 0


def binds_memory(request: PlacementRequest) -> bool:
    """Whole GPUs have no share to limit, and limits of a node's agent follow the card."""
    return (
        request.share.writes_limits
        and request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    )


def slow_load(waiting: int, capacity: int, request: PlacementRequest) -> int:
    """Millionths of the capacity; where there is none, more than any."""
    load = (waiting + request.share.fraction.slices_on_each) * 10**6
    return load // capacity if capacity else load * 10**6
