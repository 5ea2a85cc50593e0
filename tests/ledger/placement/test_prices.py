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
        ((-16, 3, 4), (2, 4), [1, 2]),
        ((-16, 3, 4), (4, 2), [2, 1]),
        ((-1, -2), (1, 1), None),
        ((), (1, 1), None),
    ],
)
def test_containers_get_the_fullest_gpus_with_room_the_largest_first(free, sizes, chosen):
    assert gpus_of_split(free, split_of(sizes)) == chosen


def can_hold(free, sizes):
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
