"""Which cards a machine gives, and which are out of service."""

from dataclasses import replace

import pytest

from agent.gpu import GpuCondition
from baremetal.cards import CardsError, CardWatch, chosen
from tests.baremetal.support.machine import cards

WELL, LOST = GpuCondition(answers=True), GpuCondition(answers=False)


class Driver:
    """Says what a test wants of each card."""

    def __init__(self):
        self.conditions = {}

    def condition_of(self, uuid):
        return self.conditions.get(uuid, WELL)


def test_all_cards_are_given_but_those_in_mig_mode():
    first, second, third = cards(3)
    assert chosen((first, replace(second, mig=True), third), None) == (first, third)


def test_named_cards_are_given_by_their_numbers():
    assert [card.index for card in chosen(cards(4), (3, 1))] == [1, 3]


def test_a_card_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(CardsError, match="--gpus names 2, which the driver does not list: it has 0, 1"):
        chosen(cards(2), (0, 1, 2, 3))
    with pytest.raises(CardsError, match="it has no card"):
        chosen((), (0,))


def test_a_card_that_was_given_before_and_is_lost_is_left_out():
    assert [card.index for card in chosen(cards(2), (0, 1, 2), known=(2,))] == [0, 1]


def test_a_named_card_in_mig_mode_is_refused_and_so_is_a_machine_without_cards():
    [card] = cards(1)
    with pytest.raises(CardsError, match="--gpus names 0, which is in MIG mode"):
        chosen((replace(card, mig=True),), (0,))
    with pytest.raises(CardsError, match="no card that could be given"):
        chosen((replace(card, mig=True),), None)


def test_a_lost_card_is_out_of_service_until_it_answers_and_each_change_is_told_once():
    driver, changes = Driver(), []
    watch = CardWatch(driver, cards(2), lambda: changes.append(dict(watch.faults)))
    watch.look()
    driver.conditions["GPU-1"] = LOST
    for _ in range(2):
        watch.look()
    driver.conditions["GPU-1"] = WELL
    for _ in range(2):
        watch.look()
    assert changes == [{1: "it does not answer"}, {}]


def test_a_card_that_the_driver_wants_reset_is_out_of_service():
    driver = Driver()
    driver.conditions["GPU-0"] = GpuCondition(answers=True, recovery="reset of the GPU")
    watch = CardWatch(driver, cards(1), lambda: None)
    watch.start()
    watch.stop()
    assert watch.faults == {0: "its driver asks for: reset of the GPU"}
