"""What is learnt of arriving pods, and the prices made of it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.placement.cpu_history import LEVELS, PER_SLICE
from ledger.placement.packing import UNIT
from ledger.placement.request_history import FreeGpus, RequestHistory
from modes.fraction import Fraction
from tests.effort import examples


def learn(history: RequestHistory, fraction: Fraction, cpu_milli: int) -> None:
    """Count a pod, and renew the prices as the ledger does."""
    if history.learn(fraction, cpu_milli):
        history.renew(FreeGpus())


def test_worth_follows_what_arrives() -> None:
    history = RequestHistory(8)
    before = history.prices
    for _ in range(500):
        learn(history, Fraction(8, 8), 12_000)
    after = history.prices
    assert before.gpu[4] > after.gpu[4]
    assert after.gpu[8] == pytest.approx(8 * UNIT * 1.02, rel=0.01)
    assert after.cpu == (PER_SLICE * 8 // 12_000,) * len(LEVELS)


def test_idle_gpus_are_worth_keeping_together_for_pods_of_many() -> None:
    history = RequestHistory(8)
    for _ in range(100):
        learn(history, Fraction(32, 8), 0)
    worth = history.prices
    assert worth.idle[3] < worth.idle[4]
    assert worth.idle[4] - worth.idle[3] > worth.idle[3] - worth.idle[2]


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_where_prices_are_equal_an_exact_hole_is_filled_first(sizes) -> None:
    """A gap of three is worth next to nothing to threes, fours and fives, but an idle GPU is not cheaper."""
    gaps = learnt(sizes * 1000).prices.gaps
    assert {each: gaps[each][0] for each in sizes} == {each: each for each in sizes}


def test_a_hole_that_pods_need_is_kept_rather_than_an_idle_gpu() -> None:
    """Of twos, threes and fives: what a three leaves of an idle GPU takes a five, its own gap a two."""
    gaps = learnt((2, 3, 5) * 1000).prices.gaps
    assert (gaps[2][0], gaps[3][0]) == (2, 8)


def learnt(sizes: Iterable[int], free: FreeGpus | None = None) -> RequestHistory:
    """What is known after pods of these sizes, with prices by what is free then."""
    history = RequestHistory(8)
    for slices in sizes:
        history.learn(Fraction(slices, 8), 0)
    history.renew(free or FreeGpus())
    return history


def learnt_beside(free: FreeGpus) -> RequestHistory:
    """What saw 99 pods of one GPU for each of eight GPUs."""
    return learnt(([64] + [8] * 99) * 30, free)


def test_idle_nodes_cost_next_to_nothing_while_there_are_more_than_large_pods_will_ask_for() -> None:
    plenty = learnt_beside(FreeGpus(slices=100 * 64, idle={8: 100}))
    assert 0 < plenty.prices.idle[8] < 2 * UNIT


def test_the_last_idle_nodes_cost_all_their_slices() -> None:
    last = learnt_beside(FreeGpus(slices=100 * 64, idle={8: 2, 1: 780}))
    assert last.prices.idle[8] == pytest.approx(64 * UNIT, rel=0.02)
    assert last.prices.idle[7] < UNIT


def test_the_scarcer_idle_nodes_are_the_more_they_cost() -> None:
    costs = [learnt_beside(FreeGpus(6400, {8: nodes})).prices.idle[8] for nodes in (100, 50, 20, 10, 5, 2, 0)]
    assert costs == sorted(costs)
    # The pods of two and four GPUs that are counted beforehand make the rest.
    assert costs[-1] == pytest.approx(64 * UNIT, rel=0.07)


def test_idle_nodes_cost_less_where_cpu_runs_out_before_gpus_do() -> None:
    """Large pods will not find the CPU in the end, and small ones would have to go elsewhere until then."""
    costs = [
        learnt_beside(FreeGpus(6400, {8: 20}, cpu_milli=cpu, taken_slices=6400, taken_cpu_milli=100_000))
        for cpu in (0, 100_000, 110_000, 130_000, 150_000, 10**6)
    ]
    idle = [each.prices.idle[8] for each in costs]
    assert idle[0] == idle[1] < idle[2] < idle[3] < idle[4] == idle[5]


def test_cpu_is_plentiful_where_half_as_much_again_is_left_with_a_slice_as_was_taken() -> None:
    assert [
        FreeGpus(80, cpu_milli=cpu, taken_slices=40, taken_cpu_milli=40_000).plenty_of_cpu()
        for cpu in (0, 80_000, 100_000, 120_000, 10**9)
    ] == [0, 0, UNIT // 2, UNIT, UNIT]


@pytest.mark.parametrize(
    "free",
    [
        FreeGpus(),
        FreeGpus(64, {8: 1}, 96_000),
        FreeGpus(32, {}, 96_000, taken_slices=32),
        FreeGpus(64, {8: 1}, 90_000, taken_cpu_milli=6_000),
        FreeGpus(0, {}, 8_000, 64, 88_000),
    ],
)
def test_cpu_is_plentiful_while_none_is_taken_or_no_slices_are(free) -> None:
    assert free.plenty_of_cpu() == UNIT


def test_gpus_serve_pods_of_several_only_in_whole_groups_of_one_node() -> None:
    assert FreeGpus(idle={8: 1, 7: 1, 3: 2}).slices_of_idle(4, 8) == (2 + 1) * 4 * 8


@given(
    st.lists(st.sampled_from([1, 4, 8, 12, 16, 64]), max_size=60),
    st.integers(0, 10**6),
    st.integers(-(10**6), 10**6),
    st.integers(0, 10**6),
)
@settings(max_examples=examples(100))
def test_more_idle_gpus_of_a_node_are_never_worth_less(sizes, slices, cpu, taken) -> None:
    history = RequestHistory(8)
    for size in sizes:
        history.learn(Fraction(size, 8, parts=2 if size == 12 else 1), 0)
    history.renew(FreeGpus(slices, {8: 3}, cpu, taken, taken))
    assert all(0 <= smaller <= larger for smaller, larger in pairwise(history.prices.idle))


def test_old_arrivals_weigh_less_than_new_ones() -> None:
    history = RequestHistory(8)
    for slices in (4, 8):
        for _ in range(40_000):
            learn(history, Fraction(slices, 8), 1000)
    assert history._arrived <= 32_768
    assert history._sizes[8] > 3 * history._sizes[4]


def test_an_absurd_request_does_not_teach_that_cpu_is_worthless() -> None:
    history = RequestHistory(8)
    for _ in range(100):
        learn(history, Fraction(1, 8), 10**15)
    assert min(history.prices.cpu) >= PER_SLICE * 8 // 64_000
