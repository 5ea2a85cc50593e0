"""What device ids mean, for every card, slice count and reserve."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gpu import Gpu
from agent.shares import RefusedError, memory_mib, preferred_ids, shares_of

SLICES = st.integers(1, 64)


def gpu(index, memory_mib=40960):
    return Gpu(index, f"GPU-{index}", "NVIDIA A100", memory_mib)


@given(memory=st.integers(1, 1 << 20), slices=SLICES, reserve=st.integers(0, 4096), data=st.data())
def test_a_share_is_its_part_of_its_own_card_rounded_down_less_the_reserve(memory, slices, reserve, data):
    asked = data.draw(st.integers(1, slices))
    exact = Fraction(memory * asked, slices)
    try:
        mib = memory_mib(gpu(0, memory), asked, slices, reserve)
    except RefusedError:
        assert asked < slices
        assert exact < reserve + 1
        return
    if asked == slices:
        assert mib is None
    else:
        assert mib + reserve <= exact < mib + reserve + 1


@pytest.mark.parametrize(
    ("free", "size", "must", "chosen"),
    [
        ({0: 3, 1: 5}, 3, [], {0: 3}),
        ({0: 3, 1: 5}, 4, [], {1: 4}),
        ({0: 3, 1: 5}, 2, ["GPU-1::4"], {1: 2}),
        ({0: 3, 1: 5, 2: 4}, 7, [], {1: 5, 0: 2}),
        ({0: 8, 1: 7, 2: 8}, 16, [], {0: 8, 2: 8}),
        ({0: 1}, 2, [], {0: 1}),
    ],
)
def test_preferred_slices_are_of_the_card_with_the_least_room_that_is_enough_else_of_few(
    free, size, must, chosen
):
    available = [f"GPU-{index}::{number}" for index, room in free.items() for number in range(room)]
    found = preferred_ids(available, must, size, 8)
    assert set(must) <= set(found) <= set(available)
    assert Counter(int(each[4]) for each in set(found)) == chosen


@pytest.mark.parametrize(
    "ids",
    [
        ["GPU-0::-1"],
        ["GPU-0::8"],
        ["GPU-0::00"],
        ["GPU-1::0"],
        ["GPU-0"],
        ["GPU-0::٣"],
        ["::0"],
        ["x" * 5000],
    ],
)
def test_strange_ids_are_refused(ids):
    with pytest.raises(RefusedError):
        shares_of(ids, {"GPU-0": gpu(0)}, 8, 0)
