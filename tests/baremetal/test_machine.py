"""Slices of a machine's cards, through the ledger."""

from dataclasses import replace

from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from baremetal.machine import Machine
from tests.baremetal.support.machine import Box, cards, given, held, machine, served, task
from tests.effort import examples

DUAL, QUARTER, HALF, SINGLE = (
    each.fraction for each in served("dual=2", "quarter=0.25", "half=0.5", "single=1")
)


def test_a_machine_gives_what_it_has_and_no_ninth_slice():
    box = machine(1)
    assert given(box, 1, HALF) == (0,)
    assert given(box, 2, QUARTER) == (0,)
    assert box.free() == {0: 2}
    assert given(box, 3, HALF) is None
    assert given(box, 4, QUARTER) == (0,)
    assert box.free() == {0: 0}
    box.release(1)
    assert box.free() == {0: 4}


def test_a_card_out_of_service_gets_nothing_and_what_it_has_stays_counted():
    box = machine(2)
    box.adopt(held(1, 4, 0))
    box.lose(0)
    assert given(box, 2, QUARTER) == (1,)
    assert given(box, 3, SINGLE) is None
    assert box.free() == {0: 4, 1: 6}
    box.lose()
    assert given(box, 4, HALF) == (0,)


def test_a_task_on_a_card_that_is_no_longer_given_takes_nothing_of_the_others():
    box = machine(1)
    box.adopt(held(1, 8, 5))
    assert box.free() == {0: 8}
    box.release(1)
    assert given(box, 2, SINGLE) == (0,)


def test_unequal_cards_are_all_given():
    big = cards(2)
    box = Box([big[0], replace(big[1], memory_mib=16384, model="Tesla T4")])
    assert {given(box, number, SINGLE) for number in (1, 2)} == {(0,), (1,)}


MACHINE = Machine(
    name="box",
    cards=cards(3),
    slices_per_gpu=8,
    queues=served("Half GPU=0.5", "dual=2"),
    faults={"GPU-2": "GPU 2 is out of service: it does not answer"},
)


def test_the_machine_is_shown_as_one_node_of_the_ledger():
    waiting = [
        task(number, queue, (), 0, state="waiting")
        for number, queue in ((8, "dual"), (9, "Half GPU"), (10, "gone"))
    ]
    view = MACHINE.ledger([task(7, "Half GPU", (1,), 4)], waiting).view()
    [node] = view.nodes
    assert (node.name, node.slices_per_gpu, node.gpu_mib) == ("box", 8, 40960)
    assert [(gpu.used, gpu.free, gpu.cordoned) for gpu in node.gpus] == [
        (0, 8, False),
        (4, 4, False),
        (0, 0, True),
    ]
    [share] = node.gpus[1].shares
    assert (share.name, share.slices, share.queue) == ("7", 4, "Half GPU")
    assert [(each.name, each.slices) for each in view.backlog] == [("8", 16), ("9", 4)]


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
