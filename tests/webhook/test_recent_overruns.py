"""Whoever has just taken the event loop too long is left to workers for a while."""

from webhook.recent_overruns import MAX_NAMESPACES, SECONDS, RecentOverruns


def test_a_namespace_is_held_for_a_while_and_then_forgotten():
    overruns = RecentOverruns()
    assert not overruns
    overruns.note("team", 5.0)
    assert overruns.hold("team", 5.0 + SECONDS / 2)
    assert not overruns.hold("other", 5.0)
    assert not overruns.hold("team", 5.0 + SECONDS)
    assert not overruns


def test_more_namespaces_than_it_keeps_push_out_the_oldest():
    overruns = RecentOverruns()
    for number in range(MAX_NAMESPACES):
        overruns.note(f"n{number}", 0.0)
    overruns.note("n0", 1.0)
    overruns.note("last", 2.0)
    assert len(overruns) == MAX_NAMESPACES
    assert not overruns.hold("n1", 2.0)
    assert overruns.hold("n0", 2.0)
    assert overruns.hold("last", 2.0)
