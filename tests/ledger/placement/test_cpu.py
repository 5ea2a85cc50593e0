"""CPU in the score: what pods ask for with a slice, learnt at several levels, and slices that lack it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts import NodeAccount
from ledger.placement.cpu import CpuHistory, gains, taken_up, turning_points, unusable_slices
from ledger.placement.node_class import NodeClass, Search
from ledger.placement.prices import base_score, prices_of
from modes.fraction import Fraction
from tests.effort import examples
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, request_of

LITTLE, MUCH = 500, 4000
"""Milli-CPU that come with a slice."""


def learnt(*per_slice: int) -> tuple[int, ...]:
    """Prices by as many slices with each of these amounts of CPU."""
    history = CpuHistory()
    for cpu in per_slice:
        history.learn(1000, cpu)
    return history.prices()


def test_a_pod_with_little_cpu_goes_where_others_would_lack_it() -> None:
    nodes = [gpu_node("rich", 1, cpu_milli=40_000), gpu_node("poor", 1, cpu_milli=39_000)]
    ledger = ledger_of(*nodes, holders=(holder("p", "poor", cpu_milli=31_000),))
    for cpu in (LITTLE, MUCH) * 1000:
        ledger.place(eighths(8, cpu_milli=8 * cpu, reservation="learns"), 0.0)
        ledger.release("learns")
    assert ledger.place(eighths(8, cpu_milli=8 * LITTLE), 0.0).node == "poor"
    assert ledger.place(eighths(8, cpu_milli=7 * LITTLE), 0.0).node == "poor"


@given(
    st.integers(0, 64),
    st.integers(0, 2**20),
    st.integers(1, 64),
    st.integers(0, 2**20),
    st.lists(st.integers(0, 8000), min_size=1, max_size=4),
)
def test_a_pod_takes_up_what_is_unusable_less_after_it(free, cpu_free, slices, cpu, per_slice) -> None:
    prices = learnt(*per_slice)
    change = unusable_slices(free, cpu_free, prices) - unusable_slices(free - slices, cpu_free - cpu, prices)
    if free >= slices:
        assert taken_up(free, cpu_free, gains(slices, cpu, prices)) == change


@given(
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(0, 100_000),
    st.lists(st.integers(0, 8000), min_size=1, max_size=4),
    st.lists(st.integers(0, 200_000), min_size=1, max_size=40, unique=True),
)
def test_the_best_amount_of_cpu_is_beside_a_turning_point(free, slices, cpu, per_slice, amounts) -> None:
    pod = gains(min(slices, free), cpu, learnt(*per_slice))
    amounts.sort()
    beside = {amounts[0], amounts[-1]}
    for turn in turning_points(free, pod):
        beside |= {*[each for each in amounts if each < turn][-1:]}
        beside |= {*[each for each in amounts if each >= turn][:1]}
    best = max(taken_up(free, each, pod) for each in amounts)
    assert max(taken_up(free, each, pod) for each in beside) == best


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 2)), min_size=1, max_size=60),
    st.builds(
        request_of,
        st.sampled_from([Fraction(slices, 8) for slices in (1, 4, 8, 16)]),
        cpu_milli=st.integers(0, 4000),
        memory_bytes=st.integers(0, 2),
    ),
    st.lists(st.integers(0, 500), min_size=1, max_size=3),
    st.booleans(),
)
@settings(max_examples=examples(300))
def test_of_many_nodes_alike_the_one_is_found_whose_cpu_suits_best(nodes, request, per_slice, named) -> None:
    prices = prices_of({(8, 1): 8.0}, 8, 8, learnt(*per_slice))
    accounts = [NodeAccount(f"n{number}") for number in range(len(nodes))]
    alike = NodeClass(gpu_node("n", 2), prices)
    for account, (cpu_free, memory_free) in zip(accounts, nodes, strict=True):
        account.fact = gpu_node(account.name, 2, cpu_milli=cpu_free, memory_bytes=memory_free)
        alike.insert(account)
    accepted = {account.name for account in accounts[:: 2 if named else 1]}
    cpu, memory = request.share.cpu_milli, request.share.memory_bytes
    accepts = (lambda account: account.name in accepted) if named else None
    found = alike.best(Search(request, accepts), None)
    fitting = [
        taken_up(16, account.cpu_free, gains(request.share.fraction.slices, cpu, prices.cpu))
        for account in accounts
        if account.name in accepted and account.cpu_free >= cpu and account.memory_free >= memory
    ]
    base = base_score((8, 8), request.share.fraction, prices)
    assert (found[0] - base if found is not None else None) == max(fitting, default=None)
