"""Namespaces take turns, the longest waiting first, and who is refused pauses."""

import asyncio

import pytest

from service.turns import MAX_PAUSE_SECONDS, TurnQueue, Turns, in_turn


def namespace_of(item):
    return item[0]


@pytest.fixture
def turns():
    return Turns(namespace_of, lambda item: item, 60.0)


def test_each_namespace_gives_one_and_the_one_served_longest_ago_begins():
    assert in_turn(["a0", "a1", "a2", "b0", "c0"], namespace_of, {"a": 5.0}) == ["b0", "c0", "a0", "a1", "a2"]


def test_a_namespace_with_many_does_not_keep_others_waiting(turns):
    items = [f"a{number}" for number in range(24)] + ["b0"]
    assert turns.some(items, 4, 0.0) == ["a0", "b0", "a1", "a2"]


def test_every_item_is_chosen_once_before_one_is_chosen_again(turns):
    items = [f"a{number}" for number in range(10)]
    chosen = [each for _ in range(3) for each in turns.some(items, 4, 0.0)]
    assert sorted(chosen[:10]) == items
    assert chosen[10:] == ["a0", "a1"]


def test_who_is_refused_pauses_longer_each_time_and_from_the_beginning_once_accepted(turns):
    now = 0.0
    for pause in (60, 120, 240, 480, 960, 1920, MAX_PAUSE_SECONDS, MAX_PAUSE_SECONDS):
        turns.refused("a0", now)
        assert turns.some(["a0"], 1, now + pause - 1) == []
        assert turns.some(["a0"], 1, now + pause) == ["a0"]
        now += pause
    turns.accepted("a0")
    turns.refused("a0", now)
    assert turns.some(["a0"], 1, now + 60) == ["a0"]


def test_who_no_longer_waits_is_forgotten(turns):
    turns.refused("a0", 0.0)
    turns.keep([])
    assert turns.some(["a0"], 1, 0.0) == ["a0"]


def test_a_full_queue_loses_the_newest_of_the_namespace_with_most():
    async def main():
        queue = TurnQueue(3, namespace_of)
        lost = [queue.put(item) for item in ("a0", "a1", "a2", "b0", "a3")]
        return lost, [await queue.get() for _ in range(3)]

    assert asyncio.run(main()) == ([None, None, None, "a2", "a3"], ["a0", "b0", "a1"])
