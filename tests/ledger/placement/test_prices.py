"""Which GPUs of a node containers get that may lie on different ones, beside a search of all arrangements."""

import random
from functools import cache

import pytest

from ledger.placement.expected_pods import unlearnt_prices
from ledger.placement.prices import base_score, gpus_of_split
from modes.fraction import Fraction

PRICES = {slices: unlearnt_prices(slices) for slices in (8, 16)}


@cache
def can_hold(free, sizes):
    """Whether some arrangement of containers fits, by trying them all; both sorted."""
    if not sizes:
        return True
    arranged = {tuple(sorted((*free[:at], left - sizes[0], *free[at + 1 :]))) for at, left in enumerate(free)}
    return any(can_hold(left, sizes[1:]) for left in arranged if left[0] >= 0)


def split_of(sizes, per_gpu=8):
    """Containers of so many slices, which are memory where no fraction comes to as many."""
    memory = {"mib": len(sizes), "split_mib": (1,) * len(sizes)} if sum(sizes) >= per_gpu else {}
    return Fraction(sum(sizes), per_gpu, split=tuple(sizes), **memory).apart()


def found_of(free, sizes, per_gpu=8):
    """Whether room is found, once it is seen that no GPU gives more than it has."""
    split = split_of(sizes, per_gpu)
    chosen = gpus_of_split(free, split)
    assert (chosen is None) is (base_score(free, split, PRICES[per_gpu]) is None)
    if chosen is None:
        return False
    left = list(free)
    for position, slices in zip(chosen, sizes, strict=True):
        left[position] -= slices
    assert min(left) >= 0
    return True


@pytest.mark.parametrize("per_gpu", [8, 16])
def test_of_up_to_three_containers_every_arrangement_is_found(per_gpu):
    drawn = random.Random(per_gpu)  # noqa: S311 - repeatable
    for _ in range(500):
        sizes = sorted(drawn.choices(range(1, per_gpu + 1), k=drawn.choice([2, 3])), reverse=True)
        free = tuple(sorted(drawn.choices(range(per_gpu + 1), k=drawn.randint(1, 8))))
        assert found_of(free, sizes, per_gpu) is can_hold(free, tuple(sizes))


def test_the_order_of_the_containers_is_kept_and_gpus_with_less_than_nothing_left_are_none():
    assert gpus_of_split((-16, 3, 4), split_of((2, 4))) == [1, 2]
    assert gpus_of_split((-16, 3, 4), split_of((4, 2))) == [2, 1]
    assert gpus_of_split((-1, -2), split_of((1, 1))) is None
    assert gpus_of_split((), split_of((1, 1))) is None
