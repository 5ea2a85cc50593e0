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


def test_the_95th_percentile_leaves_out_what_was_rare():
    often = [(at, seen(300)) for at in range(95)]
    rare = [(at, seen(900)) for at in range(95, 100)]
    assert after(*often, *rare).p95_mib == 300
    assert after(*often, *rare, (101, seen(900))).p95_mib == 900


def test_the_95th_percentile_is_at_most_the_peak_though_it_is_counted_in_steps():
    assert after((0, seen(301))).p95_mib == 301
    assert after((0, seen(5000))).p95_mib == 1000, "a container without a limit may exceed its share"


def test_the_time_is_the_mean_of_the_last_hour():
    assert after((0, seen(busy=100)), (15, seen(busy=0)), (MINUTE, seen(busy=50))).busy_percent == 50
    assert after((0, seen(busy=100)), (60 * MINUTE, seen(busy=10))).busy_percent == 10
    assert after((0, seen(busy=100)), (59 * MINUTE, seen(busy=10))).busy_percent == 55


def test_without_a_figure_of_the_driver_the_time_is_unknown():
    assert after((0, seen(100))).busy_percent is None
    assert after((0, seen(busy=80)), (15, seen())).busy_percent == 80


def test_a_container_that_could_not_be_measured_keeps_its_last_use():
    history = UseHistory()
    before = history.update([seen(100)], HOLDERS, 0)
    assert history.update([], HOLDERS, 15) == before


def test_a_container_that_holds_nothing_more_is_forgotten():
    history = UseHistory()
    history.update([seen(700)], HOLDERS, 0)
    assert history.update([], set(), 15) == []
    [use] = history.update([seen(100)], HOLDERS, 30)
    assert (use.peak_mib, use.since) == (100, 30)


def test_another_pod_of_the_same_name_begins_again():
    history = UseHistory()
    history.update([seen(700, pod_uid="a")], HOLDERS, 0)
    [use] = history.update([seen(0)], HOLDERS, 15)
    assert use.peak_mib == 700, "without a process the pod is unknown"
    [use] = history.update([seen(100, pod_uid="b")], HOLDERS, 30)
    assert use.peak_mib == 100


def idle_since(*measurements, holders=HOLDERS):
    """Since when the first container is idle after measurements."""
    history = UseHistory()
    for at, found in measurements:
        use, *_ = history.update(found, holders, at)
    return use.idle_since


def steps(until, *found, start=0):
    return [(at, list(found)) for at in range(start, until + 1, 15)]


def test_a_container_is_idle_once_no_kernel_was_seen_for_a_minute():
    assert idle_since(*steps(45, seen(busy=0))) is None
    assert idle_since(*steps(60, seen(busy=0))) == 0
    assert idle_since((0, [seen(busy=5)]), *steps(600, seen(busy=0), start=15)) == 15


@pytest.mark.parametrize("sign", [seen(busy=1), seen(100, busy=0), seen(), seen(busy=0, others_ran=True)])
def test_kernels_and_changed_memory_end_it_and_so_does_a_driver_that_cannot_tell(sign):
    before = steps(600, seen(busy=0))
    assert idle_since(*before, (615, [sign])) is None
    assert idle_since(*before, (615, [sign]), *steps(900, seen(sign.used_mib, busy=0), start=630)) == 630


def test_time_that_nobody_measured_does_not_count_as_idle():
    before = steps(600, seen(busy=0))
    assert idle_since(*before, (615, []), *steps(900, seen(busy=0), start=630)) == 630
    assert idle_since(*before, *steps(4260, seen(busy=0), start=4200)) == 4200, "or the clock was set"
    assert idle_since(*before, *steps(160, seen(busy=0), start=100)) == 100, "or set back"


def test_no_container_of_a_pod_is_idle_while_one_of_them_cannot_be_measured():
    other = replace(seen(busy=0), name=ContainerName("team", "train", "other"))
    holders = HOLDERS | {(other.name, 0)}
    assert idle_since(*steps(600, seen(busy=0)), holders=holders) is None
    assert idle_since(*steps(600, seen(busy=0), other), holders=holders) == 0
    of_another_pod = replace(other, name=ContainerName("team", "else", "main"))
    assert idle_since(*steps(600, seen(busy=0)), holders=HOLDERS | {(of_another_pod.name, 0)}) == 0


USE = ContainerUse(NAME, 0, 6400, 100, 100, 100, 10, 0)


@pytest.mark.parametrize("change", [{"used_mib": 199}, {"busy_percent": 11}, {"peak_mib": 199}])
def test_a_small_change_is_not_worth_a_report(change):
    assert replace(USE, **change).reported == USE.reported


@pytest.mark.parametrize(
    "change",
    [
        {"used_mib": 200},
        {"peak_mib": 200},
        {"p95_mib": 0},
        {"busy_percent": 12},
        {"busy_percent": None},
        {"memory_mib": 3200},
        {"since": 15},
        {"idle_since": 15},
    ],
)
def test_a_large_change_is_worth_a_report(change):
    assert replace(USE, **change).reported != USE.reported
