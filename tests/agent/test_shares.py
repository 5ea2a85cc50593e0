"""What device ids mean, for every card, slice count and reserve."""

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


@given(
    free=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), unique=True),
    size=st.integers(1, 32),
    must=st.integers(0, 3),
)
def test_preferred_slices_are_of_one_card_wherever_one_has_room(free, size, must):
    available = [f"GPU-{index}::{number}" for index, number in free]
    required = available[: min(must, size)]
    chosen = preferred_ids(available, required, size, 8)
    assert len(chosen) == min(size, len(available))
    assert len(set(chosen)) == len(chosen)
    assert set(required) <= set(chosen) <= set(available)
    rooms = {index: sum(1 for each, _ in free if each == index) for index, _ in free}
    if not required and size < 8 and any(room >= size for room in rooms.values()):
        [card] = {each.partition("::")[0] for each in chosen}
        assert rooms[int(card[-1])] == min(room for room in rooms.values() if room >= size)


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
