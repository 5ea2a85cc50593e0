"""Slices of a machine's cards, through the ledger."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal.machine import Machine
from tests.baremetal.support.machine import cards, machine, policy, served
from tests.effort import examples

DUAL, QUARTER, HALF, SINGLE = (
    each.fraction for each in served("dual=2", "quarter=0.25", "half=0.5", "single=1")
)


def test_a_machine_gives_what_it_has_and_no_ninth_slice():
    box = machine(1)
    assert box.allocate(1, "q", HALF) == (0,)
    assert box.allocate(2, "q", QUARTER) == (0,)
    assert box.free() == {0: 2}
    assert box.allocate(3, "q", HALF) is None
    assert box.allocate(4, "q", QUARTER) == (0,)
    assert box.free() == {0: 0}
    box.release(1)
    assert box.free() == {0: 4}


def test_two_cards_are_two_idle_ones():
    box = machine(3)
    assert box.allocate(1, "q", HALF) == (0,)
    assert box.allocate(2, "q", DUAL) == (1, 2)
    assert box.free() == {0: 4, 1: 0, 2: 0}


def test_small_shares_share_a_card_so_that_whole_ones_stay_idle():
    box = machine(3)
    used = {box.allocate(number, "q", QUARTER) for number in range(4)}
    assert len(used) == 1
    assert box.allocate(9, "q", DUAL) is not None


def test_a_card_out_of_service_gets_nothing_and_what_it_has_stays_counted():
    box = machine(2)
    box.adopt(1, "q", 4, (0,))
    box.set_out_of_service({0})
    assert box.allocate(2, "q", QUARTER) == (1,)
    assert box.allocate(3, "q", SINGLE) is None
    assert box.free() == {0: 4, 1: 6}
    box.set_out_of_service(())
    assert box.allocate(4, "q", HALF) == (0,)


def test_a_task_on_a_card_that_is_no_longer_given_takes_nothing_of_the_others():
    box = machine(1)
    box.adopt(1, "q", 8, (5,))
    assert box.free() == {0: 8}
    box.release(1)
    assert box.allocate(2, "q", SINGLE) == (0,)


def test_unequal_cards_are_all_given():
    big = cards(2)
    box = Machine("box", [big[0], replace(big[1], memory_mib=16384, model="Tesla T4")], 8)
    assert {box.allocate(number, "q", SINGLE) for number in (1, 2)} == {(0,), (1,)}


def test_the_machine_is_shown_as_one_node_of_the_ledger():
    box = machine(2)
    box.adopt(7, "Half GPU", 4, (1,))
    [node] = box.view().nodes
    assert (node.name, node.slices_per_gpu, node.gpu_mib) == ("box", 8, 40960)
    assert [gpu.used for gpu in node.gpus] == [0, 4]
    [share] = node.gpus[1].shares
    assert (share.name, share.slices, share.queue) == ("7", 4, "half-gpu")


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
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
        kept = data.draw(st.sets(st.integers(0, count - 1)))
        before = box.free()
        indices = box.allocate(number, "q", share, kept)
        room = [index for index, free in before.items() if index not in kept and free >= share.slices_on_each]
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


def test_the_policy_of_these_tests_has_eighths():
    assert policy().slices_per_gpu == 8
