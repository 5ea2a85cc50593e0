"""What containers used since they were first seen, and which changes of it are worth a report."""

from dataclasses import replace

import pytest

from agent.container_use import ContainerUse, SeenUse, UseHistory
from agent.containers import ContainerName

NAME = ContainerName("team", "train", "main")
HOLDERS = {(NAME, 0)}
MINUTE = 60


def seen(used=0, busy=None, **more):
    return SeenUse(NAME, 0, more.pop("memory", 1000), used, busy, **more)


def after(*measurements):
    """The use after measurements, each with its time."""
    history = UseHistory()
    for at, each in measurements:
        [use] = history.update([each], HOLDERS, at)
    return use


def test_the_peak_outlives_the_use():
    use = after((0, seen(100)), (15, seen(700)), (30, seen(200)))
    assert (use.used_mib, use.peak_mib, use.since) == (200, 700, 0)


def test_the_95th_percentile_leaves_out_what_was_rare_and_is_at_most_the_peak():
    often = [(at, seen(300)) for at in range(95)]
    rare = [(at, seen(900)) for at in range(95, 100)]
    assert after(*often, *rare).p95_mib == 300
    assert after(*often, *rare, (101, seen(900))).p95_mib == 900
    assert after((0, seen(301))).p95_mib == 301, "though it is counted in steps"
    assert after((0, seen(5000))).p95_mib == 1000, "a container without a limit may exceed its share"


@pytest.mark.parametrize(
    ("measurements", "percent"),
    [
        ([(0, seen(busy=100)), (15, seen(busy=0)), (MINUTE, seen(busy=50))], 50),
        ([(0, seen(busy=100)), (60 * MINUTE, seen(busy=10))], 10),
        ([(0, seen(busy=100)), (59 * MINUTE, seen(busy=10))], 55),
        ([(0, seen(busy=80)), (15, seen())], 80),
        ([(0, seen(100))], None),
    ],
)
def test_the_time_is_the_mean_of_the_last_hour_as_far_as_the_driver_reports_it(measurements, percent):
    assert after(*measurements).busy_percent == percent


def test_a_container_keeps_its_last_use_until_it_holds_nothing_more_or_is_of_another_pod():
    history = UseHistory()
    [use] = before = history.update([seen(700, pod_uid="a")], HOLDERS, 0)
    assert history.update([], HOLDERS, 15) == before
    [use] = history.update([seen(0)], HOLDERS, 30)
    assert use.peak_mib == 700, "without a process the pod is unknown"
    [use] = history.update([seen(100, pod_uid="b")], HOLDERS, 45)
    assert (use.peak_mib, use.since) == (100, 45)
    assert history.update([], set(), 60) == []
    [use] = history.update([seen(50)], HOLDERS, 75)
    assert use.peak_mib == 50


def idle_since(*measurements, holders=HOLDERS):
    """Since when the first container is idle after measurements, each of a time and what was found."""
    history = UseHistory()
    for at, *found in measurements:
        use, *_ = history.update(found, holders, at)
    return use.idle_since


STILL = seen(busy=0)


def steps(until, *found, start=0):
    return [(at, *found) for at in range(start, until + 1, 15)]


BEFORE = steps(600, STILL)


def test_a_container_is_idle_once_no_kernel_was_seen_for_a_minute():
    assert idle_since(*steps(45, STILL)) is None
    assert idle_since(*steps(60, STILL)) == 0
    assert idle_since((0, seen(busy=5)), *steps(600, STILL, start=15)) == 15


@pytest.mark.parametrize("sign", [seen(busy=1), seen(100, busy=0), seen(), seen(busy=0, others_ran=True)])
def test_kernels_and_changed_memory_end_it_and_so_does_a_driver_that_cannot_tell(sign):
    assert idle_since(*BEFORE, (615, sign)) is None
    assert idle_since(*BEFORE, (615, sign), *steps(900, seen(sign.used_mib, busy=0), start=630)) == 630


def test_time_that_nobody_measured_does_not_count_as_idle():
    assert idle_since(*BEFORE, (615,), *steps(900, STILL, start=630)) == 630
    assert idle_since(*BEFORE, *steps(4260, STILL, start=4200)) == 4200, "or the clock was set"
    assert idle_since(*BEFORE, *steps(160, STILL, start=100)) == 100, "or set back"


def test_no_container_of_a_pod_is_idle_while_one_of_them_cannot_be_measured():
    other = replace(STILL, name=ContainerName("team", "train", "other"))
    assert idle_since(*BEFORE, holders=HOLDERS | {(other.name, 0)}) is None
    assert idle_since(*steps(600, STILL, other), holders=HOLDERS | {(other.name, 0)}) == 0
    assert idle_since(*BEFORE, holders=HOLDERS | {(ContainerName("team", "else", "main"), 0)}) == 0


USE = ContainerUse(NAME, 0, 6400, 100, 100, 100, 10, 0)


@pytest.mark.parametrize(
    ("change", "is_worth"),
    [
        *[({name: 199}, False) for name in ("used_mib", "peak_mib")],
        *[({name: 200}, True) for name in ("used_mib", "peak_mib")],
        ({"used_mib": 1}, False),
        ({"p95_mib": 0}, True),
        *[({"busy_percent": percent}, percent not in {9, 11}) for percent in (9, 11, 12, None)],
        *[({name: 15}, True) for name in ("memory_mib", "since", "idle_since")],
    ],
)
def test_a_change_is_worth_a_report_if_it_is_large(change, is_worth):
    assert replace(USE, **change).is_news_after(USE) == is_worth
