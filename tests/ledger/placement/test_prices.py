"""Which GPUs of a node containers get that may lie on different ones."""

import random

import pytest

from ledger.placement.prices import gpus_of_split
from modes.fraction import Fraction


def split_of(sizes, per_gpu=8):
    """Containers of so many slices, which are memory where no fraction comes to as many."""
    memory = {"mib": len(sizes), "split_mib": (1,) * len(sizes)} if sum(sizes) >= per_gpu else {}
    return Fraction(sum(sizes), per_gpu, split=tuple(sizes), **memory).apart()


@pytest.mark.parametrize(
    ("free", "sizes", "chosen"),
    [
        ((4, 4), (4, 4), [0, 1]),
        ((2, 8, 3), (3, 2), [2, 0]),
        ((5, 8), (2, 3, 8), [0, 0, 1]),
        ((8, 6), (2, 4, 8), [1, 1, 0]),
        ((3, 5), (4, 4), None),
    ],
    ids=["one each", "the fullest that has room", "two on one", "the largest chooses first", "no room"],
)
def test_containers_get_the_fullest_gpus_with_room_the_largest_first(free, sizes, chosen):
    assert gpus_of_split(free, split_of(sizes)) == chosen


def test_the_order_of_the_containers_is_kept_and_gpus_with_less_than_nothing_left_are_none():
    assert gpus_of_split((-16, 3, 4), split_of((2, 4))) == [1, 2]
    assert gpus_of_split((-16, 3, 4), split_of((4, 2))) == [2, 1]
    assert gpus_of_split((-1, -2), split_of((1, 1))) is None
    assert gpus_of_split((), split_of((1, 1))) is None


def can_hold(free, sizes):
    """Whether some arrangement of containers fits, by trying them all."""
    return not sizes or any(
        left >= sizes[0] and can_hold((*free[:at], left - sizes[0], *free[at + 1 :]), sizes[1:])
        for at, left in enumerate(free)
    )


def test_of_up_to_three_containers_every_arrangement_is_found():
    drawn = random.Random(1)  # noqa: S311 - repeatable
    for _ in range(500):
        sizes = drawn.choices(range(1, 9), k=drawn.choice([2, 3]))
        free = tuple(drawn.choices(range(9), k=drawn.randint(1, 6)))
        assert (gpus_of_split(free, split_of(sizes)) is not None) is can_hold(free, sizes)
