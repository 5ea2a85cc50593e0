"""Places for pods in free slices, and what free slices are worth by them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.placement.free_places import FreePlaces, worth_to
from ledger.placement.packing import UNIT
from ledger.placement.shadow_prices import Size
from tests.effort import examples

SIZES = st.one_of(
    st.tuples(st.integers(1, 8), st.just(1)), st.tuples(st.just(8), st.sampled_from([2, 3, 4, 8]))
)


def test_a_pod_of_several_gpus_needs_whole_groups_of_idle_ones_on_one_node() -> None:
    places = FreePlaces(8)
    places.add((3, 8, 8, 8), 2)
    places.add((8,), 5)
    assert (places.slices, places.of((8, 2)), places.of((8, 1)), places.of((3, 1))) == (94, 2, 11, 24)


@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=8), max_size=6), SIZES)
def test_places_add_up_over_nodes(nodes: list[list[int]], size: Size) -> None:
    together, single = FreePlaces(8), []
    for free in nodes:
        together.add(free, 1)
        single.append(FreePlaces(8))
        single[-1].add(free, 1)
    assert together.of(size) == sum(each.of(size) for each in single)


@given(st.dictionaries(SIZES, st.floats(0, 100)))
@settings(max_examples=examples(100))
def test_more_free_slices_are_never_worth_less(demand: dict[Size, float]) -> None:
    worth = worth_to(demand, 8, 8, ())
    for values in (worth.gpu, worth.idle):
        assert values[0] == 0
        assert all(smaller <= larger for smaller, larger in pairwise(values))


@given(st.dictionaries(SIZES, st.floats(0, 100)))
@settings(max_examples=examples(100))
def test_the_gap_taken_is_the_one_that_loses_least_and_of_equal_ones_the_smallest(
    demand: dict[Size, float],
) -> None:
    worth = worth_to(demand, 8, 8, ())
    for slices in range(1, 9):
        lost = {gap: worth.gpu[gap] - worth.gpu[gap - slices] for gap in range(slices, 9)}
        assert worth.gaps[slices][0] == min(lost, key=lambda gap: (lost[gap], gap))


def test_a_gap_that_no_expected_pod_fits_is_worth_nothing() -> None:
    assert worth_to({(4, 1): 4.0}, 8, 8, ()).gpu == tuple(UNIT * each for each in (0, 0, 0, 0, 4, 4, 4, 4, 8))
