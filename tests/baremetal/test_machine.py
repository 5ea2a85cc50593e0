"""Slices of a machine's cards, through the ledger."""

import msgspec

from tests.baremetal.support.machine import held, machine


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
