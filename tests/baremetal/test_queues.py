"""`--gpus` and `--queue` as a user writes them."""

import re
from dataclasses import replace

import pytest

from baremetal.queues import chosen, numbers_of, read_gpus, share_of
from tests.baremetal.support.machine import cards, policy, served

ADVICE = "use 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875 of one card, or whole cards such as 1 or 2"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-2", (0, 1, 2)), ("0,1", (0, 1)), ("3,0-1,1", (0, 1, 3)), ("7", (7,)), ("all", None)],
)
def test_cards_are_named_by_numbers_and_ranges(text, numbers):
    assert read_gpus(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "a", "2-0", "0,", "-1", "0-", "0--2", "1.5", "ALL", "٣", "9999", "0 ,1"]
)
def test_cards_that_are_written_otherwise_are_refused_in_one_line(text):
    with pytest.raises(ValueError, match="write numbers such as 0-2 or 0,1, or all") as raised:
        read_gpus(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("text", "slices"), [("0.5", 4), ("0.50", 4), ("0.500", 4), ("0.125", 1), ("2.0", 16)]
)
def test_a_share_is_a_number_however_many_zeros_it_has(text, slices):
    assert share_of(text, policy()).slices == slices


@pytest.mark.parametrize(
    "share", ["1.25", "0", "0.3", "0.1", "-1", "1e0", "nan", ".5", "\u0660.5", "0.5000000000000000000"]
)
def test_a_share_that_is_neither_of_the_policy_nor_whole_is_refused_with_what_to_write(share):
    with pytest.raises(ValueError, match=f'queue "x" asks for .*: {ADVICE}$'):
        served(f"x={share}")


NO_QUEUES = ["half", "half=", "=0.5", "a\n=0.5", "\udcff=1", "--gpus=1", "-x=0.5"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["x=1.25"], f'queue "x" asks for 1.25: {ADVICE}'),
        *(([text], "must be NAME=SHARE") for text in NO_QUEUES),
        (["half=0.5,quarter=0.25"], "write blanks between queues, such as a=0.5 b=1"),
        (["x=0\n5"], "asks for 0\\n5: use"),
        (["a=1", "b=1", "a=0.5"], '--queue names "a" twice'),
    ],
)
def test_queues_that_cannot_be_served_are_refused_in_one_line(texts, said):
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        served(*texts)
    assert str(raised.value).isprintable() or "\udcff" in texts[0]
    assert len(str(raised.value)) < 200


def test_a_name_may_hold_spaces_and_equal_signs_and_an_image_belongs_to_a_queue_that_is_served():
    found = served("my queue=1", "a=b=0.5", images={"a=b": "busybox"})
    assert [(each.name, each.image) for each in found] == [("my queue", None), ("a=b", "busybox")]
    with pytest.raises(ValueError, match='--image names queue "b"'):
        served("a=1", images={"b": "busybox"})


def given(gpus, wanted, before=None):
    return [card.index for card in chosen(gpus, wanted, numbers_of(gpus, before or {}))]


def test_all_cards_are_given_but_those_in_mig_mode():
    first, second, third = cards(3)
    assert given((first, replace(second, mig=True), third), None) == [0, 2]


IN_MIG = (replace(cards(1)[0], mig=True),)


@pytest.mark.parametrize(
    ("gpus", "wanted", "said"),
    [
        (cards(2), (0, 1, 2, 3), "--gpus names 2, which the driver does not list: it has 0, 1"),
        ((), (0,), "it has no card"),
        (IN_MIG, (0,), "--gpus names 0, which is in MIG mode"),
        (IN_MIG, None, "no usable card"),
    ],
)
def test_cards_that_cannot_be_given_are_refused(gpus, wanted, said):
    with pytest.raises(ValueError, match=said):
        given(gpus, wanted)


BEFORE = {card.index: card.uuid for card in cards(4)}


def test_numbers_mean_the_same_cards_when_one_is_lost_and_the_driver_numbers_the_others_anew():
    first, _, third, fourth = cards(4)
    moved = (first, replace(third, index=1), replace(fourth, index=2))
    assert given(moved, (0, 1, 2), BEFORE) == [0, 1]
    assert given(moved, (3,), BEFORE) == [2]


def test_numbers_are_the_drivers_again_when_there_is_a_new_card_or_all_are_there():
    first, second, *_ = cards(4)
    swapped = (replace(second, index=0), replace(first, index=1))
    assert numbers_of(swapped, {0: "GPU-0", 1: "GPU-1"}) == {0: "GPU-1", 1: "GPU-0"}
    replaced = (first, replace(second, uuid="GPU-new"))
    assert numbers_of(replaced, BEFORE) == {0: "GPU-0", 1: "GPU-new"}
