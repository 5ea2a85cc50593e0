"""What a gap of free slices on a GPU is worth, by the sizes of the pods that arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.placement.shadow_prices import gap_prices
from tests.effort import examples


def test_where_all_sizes_are_common_every_free_slice_counts_in_full() -> None:
    assert gap_prices(dict.fromkeys(range(1, 9), 1), 8) == pytest.approx([0, 1, 2, 3, 4, 5, 6, 7, 8])


def test_a_hole_that_only_scarce_pods_fill_is_worth_nothing() -> None:
    sizes = {1: 31, 2: 274, 3: 392, 4: 897, 5: 147, 6: 250, 7: 1069, 8: 3888}
    assert gap_prices(sizes, 8) == pytest.approx([0, 0, 1, 3, 3.5, 4, 6, 7, 7])


@given(st.sampled_from([2, 4, 8, 16]), st.data())
@settings(max_examples=examples(100))
def test_prices_solve_the_packing_programme(slices_per_gpu, data) -> None:
    """No pattern is worth more than a GPU, which is what being optimal means; gaps grow in worth."""
    counts = st.sampled_from([1, 2, 10, 500, 20_000])
    sizes = {size: data.draw(counts) for size in range(1, slices_per_gpu + 1)}
    worth = gap_prices(sizes, slices_per_gpu)
    assert worth[0] == 0
    assert all(smaller <= larger + 1e-9 for smaller, larger in pairwise(worth))
    assert all(worth[gap] <= gap + 1e-6 for gap in range(slices_per_gpu + 1))
    for first in range(slices_per_gpu + 1):
        for second in range(slices_per_gpu + 1 - first):
            assert worth[first] + worth[second] <= worth[first + second] + 1e-6


def test_the_dual_is_as_large_as_the_packing_it_belongs_to() -> None:
    """Only sixes and threes: 6 + nothing or 3 + 3; a gap of 3 is worth one three, one of 6 a six."""
    worth = gap_prices({1: 1, 2: 1, 3: 5000, 4: 1, 5: 1, 6: 5000, 7: 1, 8: 1}, 8)
    assert worth[3] == pytest.approx(3, abs=0.01)
    assert worth[6] == pytest.approx(6, abs=0.01)
    assert worth[8] == pytest.approx(6, abs=0.01)
