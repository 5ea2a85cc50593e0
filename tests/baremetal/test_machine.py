"""Slices of a machine's cards, through the ledger."""

import msgspec
from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from tests.baremetal.support.machine import given, held, machine, served
from tests.effort import examples

DUAL, QUARTER, HALF, SINGLE = (
    each.fraction for each in served("dual=2", "quarter=0.25", "half=0.5", "single=1")
)


def test_a_task_that_began_under_a_policy_of_other_slices_holds_as_much_in_todays():
    box = machine(1)
    box.adopt(msgspec.structs.replace(held(1, 1, 0), slices_per_gpu=4))
    assert box.free() == {0: 6}
    box.adopt(msgspec.structs.replace(held(2, 1, 0), slices_per_gpu=16))
    assert box.free() == {0: 5}


def test_a_task_on_a_card_that_is_no_longer_given_takes_nothing_of_the_others():
    box = machine(1)
    box.adopt(held(1, 8, 5))
    assert box.free() == {0: 8}
    box.release(1)
    assert given(box, 2, SINGLE) == (0,)


@settings(max_examples=examples(120), deadline=None)
@given_data(st.data())
def test_whatever_comes_and_goes_a_card_never_gives_more_than_eight(data):
    count = data.draw(st.integers(1, 4))
    box = machine(count)
    shares = [HALF, QUARTER, SINGLE, *served("e=0.875", "t=0.375")]
    shares = [getattr(each, "fraction", each) for each in shares] + ([DUAL] if count > 1 else [])
    held = {}
    for number in range(data.draw(st.integers(1, 40))):
        if held and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(held)))
            del held[gone]
            box.release(gone)
            continue
        share = data.draw(st.sampled_from(shares))
        lost = data.draw(st.sets(st.integers(0, count - 1)))
        box.lose(*lost)
        before = box.free()
        indices = given(box, number, share)
        room = [index for index, free in before.items() if index not in lost and free >= share.slices_on_each]
        assert (indices is not None) == (len(room) >= share.gpus)
        if indices is not None:
            assert set(indices) <= set(room)
            held[number] = (indices, share.slices_on_each)
        used = dict.fromkeys(range(count), 0)
        for taken, slices in held.values():
            for index in taken:
                used[index] += slices
        assert max(used.values()) <= 8
        assert box.free() == {index: 8 - slices for index, slices in used.items()}
