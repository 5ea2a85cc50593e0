"""Namespaces take turns, the longest waiting first, and who is refused pauses."""

import asyncio

from service.turns import MAX_PAUSE_SECONDS, Pauses, TurnQueue, in_turn


def namespace_of(item):
    return item[0]


def test_each_namespace_gives_one_and_the_one_served_longest_ago_begins():
    assert in_turn(["a0", "a1", "a2", "b0", "c0"], namespace_of, {"a": 5.0}) == ["b0", "c0", "a0", "a1", "a2"]


def test_who_is_refused_pauses_longer_each_time_and_from_the_beginning_once_accepted_or_forgotten():
    pauses, now = Pauses(60.0), 0.0
    for pause in (60, 120, 240, 480, 960, 1920, MAX_PAUSE_SECONDS, MAX_PAUSE_SECONDS):
        pauses.refused("a", now)
        assert (pauses.paused(now + pause - 1), pauses.paused(now + pause)) == ({"a"}, set())
        now += pause
    for begin_again in (lambda: pauses.accepted("a"), lambda: pauses.keep(["b"])):
        begin_again()
        pauses.refused("a", now)
        assert (pauses.pauses("a", now + 59), pauses.pauses("a", now + 60)) == (True, False)


def test_a_full_queue_loses_the_newest_of_the_namespace_with_most():
    async def main():
        queue = TurnQueue(3, namespace_of)
        lost = [queue.put(item) for item in ("a0", "a1", "a2", "b0", "a3")]
        return lost, [await queue.get() for _ in range(3)]

    assert asyncio.run(main()) == ([None, None, None, "a2", "a3"], ["a0", "b0", "a1"])
