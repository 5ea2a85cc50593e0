"""How far a watch is trusted: what was known when, and from when on it counts as failed."""

from types import SimpleNamespace

from cluster.watch_health import CATCH_UP_SECONDS, UNHEALTHY_AFTER_SECONDS, WatchHealth


def followed():
    clock = SimpleNamespace(now=994.0)
    health = WatchHealth(lambda: clock.now)
    for clock.now in (997.0, 1000.0):
        health.observed()
    return health, clock


def test_after_a_silence_nothing_more_is_known_until_what_was_missed_has_been_listed():
    health, clock = followed()
    clock.now += 300
    health.observed()
    assert health.known_until == 1000.0
    clock.now += CATCH_UP_SECONDS - 0.1
    health.observed()
    assert health.known_until == 1000.0
    clock.now += 0.1
    assert health.known_until == clock.now - 0.1


def test_a_quiet_watch_is_well_and_one_that_fails_for_long_is_not():
    health, clock = followed()
    clock.now += 90
    assert health.fault is None
    health.failed("TimeoutError: ")
    assert health.fault == "no event for 90 s: TimeoutError: "
    health.observed()
    assert health.fault is None
    clock.now += UNHEALTHY_AFTER_SECONDS
    health.failed("ApiError: the API server answered 403: " + "x" * 1000)
    assert health.fault is None
    clock.now += 1
    assert health.fault.startswith("no event for 11 s: ApiError: ")
    assert len(health.fault) < 200


def test_a_list_that_comes_page_by_page_is_no_fault():
    health, clock = followed()
    health.failed("StaleError: too old")
    clock.now += 60
    assert health.fault is not None
    health.answered()
    assert health.fault is None
    assert health.known_until == 1000.0
