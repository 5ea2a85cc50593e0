"""Whose turn it is, and what becomes of what is set aside and not used."""

from controller.geometry.turns import (
    FIRST_DEFERRAL_SECONDS,
    MEMORY_SECONDS,
    USE_SECONDS,
    Deferrals,
    NamespaceTurns,
)
from service.turns import MAX_PAUSE_SECONDS


def test_a_namespace_for_which_instances_stay_aside_has_had_its_turn():
    turns = NamespaceTurns()
    turns.give({"a"}, 0.0)
    turns.give({"a"}, USE_SECONDS - 1)
    assert "a" not in turns.last
    turns.give({"a"}, USE_SECONDS)
    assert turns.last == {"a": USE_SECONDS}


def test_only_the_time_counts_for_which_instances_are_set_aside_however_it_is_spread():
    turns = NamespaceTurns()
    for begin in (0.0, 100.0, 200.0):
        assert not turns.last
        turns.give({"a"}, begin)
        turns.give(set(), begin + USE_SECONDS / 3)
    assert turns.last == {"a": 200.0 + USE_SECONDS / 3}


def test_a_turn_begins_the_count_of_what_is_set_aside_again():
    turns = NamespaceTurns()
    turns.give({"a"}, 0.0)
    turns.give({"a"}, USE_SECONDS - 1)
    turns.take(["a"], USE_SECONDS - 1)
    turns.give({"a"}, USE_SECONDS)
    assert turns.last == {"a": USE_SECONDS - 1}


def test_what_was_set_aside_is_forgotten_after_an_hour():
    turns = NamespaceTurns()
    turns.give({"a"}, 0.0)
    turns.give(set(), USE_SECONDS - 1)
    turns.forget(USE_SECONDS - 1 + MEMORY_SECONDS)
    turns.give({"a"}, MEMORY_SECONDS * 2)
    turns.give(set(), MEMORY_SECONDS * 2 + 1)
    assert not turns.last


def test_a_pod_recreated_in_each_minute_does_not_keep_its_namespace_the_first():
    """Its instances are set aside for another pod each time, and never used."""
    turns, deferrals = NamespaceTurns(), Deferrals()
    for second in range(0, int(3 * USE_SECONDS), 2):
        turns.give({"greedy"}, float(second))
        assert not deferrals.give({f"pod-{second // 50}"}, float(second))
    assert "greedy" in turns.last


def test_a_turn_is_forgotten_after_an_hour():
    turns = NamespaceTurns()
    turns.take(["a"], 0.0)
    turns.forget(MEMORY_SECONDS - 1)
    assert "a" in turns.last
    turns.forget(MEMORY_SECONDS)
    assert not turns.last


def test_a_pod_that_does_not_use_what_is_set_aside_is_left_alone_for_longer_each_time():
    deferrals, now, pauses = Deferrals(), 0.0, []
    for _ in range(6):
        assert deferrals.give({"p"}, now) == []
        now += USE_SECONDS
        assert deferrals.give({"p"}, now) == ["p"]
        began = now
        while deferrals.is_deferred("p", now):
            now += 1.0
        pauses.append(now - began)
    assert pauses[:3] == [FIRST_DEFERRAL_SECONDS, 2 * FIRST_DEFERRAL_SECONDS, 4 * FIRST_DEFERRAL_SECONDS]
    assert pauses[-1] == MAX_PAUSE_SECONDS


def test_pods_that_no_longer_wait_are_forgotten():
    deferrals = Deferrals()
    deferrals.give({"p"}, 0.0)
    deferrals.give({"p"}, USE_SECONDS)
    deferrals.keep(set())
    assert not deferrals.is_deferred("p", USE_SECONDS)
