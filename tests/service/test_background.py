"""Background tasks: run again when they fail, and missed when they no longer turn."""

import asyncio
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from service.background import BackgroundTask, BackgroundTasks, beat
from service.retry import Backoff
from testbed.process import WAIT_S
from tests.service.virtual_time import VirtualTimeLoop

LOOP = VirtualTimeLoop
FAILURES = "fraction_injector_background_task_failures_total"


class Kept:
    """The tasks of a process, of which one is under way."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.tasks = BackgroundTasks(["publishing", "election"], self.registry)
        self.heartbeat = None
        self.began = asyncio.Event()

    async def turn(self):
        self.heartbeat = partial(copy_context().run, beat)
        self.began.set()
        await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self, period_seconds):
        keeping = asyncio.create_task(self.tasks.keep(BackgroundTask("election", self.turn, period_seconds)))
        await self.began.wait()
        yield self
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    def pass_time(self, seconds):
        for _ in range(seconds):
            self.tasks.tick()

    def failures(self, task):
        return self.registry.get_sample_value(FAILURES, {"task": task})


async def fails_when_cancelled():
    try:
        await asyncio.Event().wait()
    finally:
        raise RuntimeError("the last write was refused")


async def group_that_fails_when_cancelled():
    async with asyncio.TaskGroup() as group:
        group.create_task(fails_when_cancelled())


@pytest.mark.parametrize("run", [fails_when_cancelled, group_that_fails_when_cancelled])
async def test_a_task_that_fails_while_it_is_cancelled_does_not_run_again(run):
    tasks, begun, began = Kept(), [], asyncio.Event()

    async def counted():
        begun.append(run)
        began.set()
        await run()

    keeping = asyncio.create_task(tasks.tasks.keep(BackgroundTask("publishing", counted)))
    await began.wait()
    await asyncio.sleep(0)
    keeping.cancel()
    await asyncio.wait([keeping], timeout=WAIT_S)
    assert keeping.cancelled()
    assert len(begun) == 1


async def fails():
    raise OSError("gone")


async def group_that_fails():
    async with asyncio.TaskGroup() as group:
        group.create_task(fails())


@pytest.mark.parametrize("run", [fails, group_that_fails])
async def test_every_failure_is_counted_and_the_task_runs_again(run):
    tasks, runs = Kept(), []

    async def loop():
        runs.append(1)
        if len(runs) < 3:
            await run()

    await tasks.tasks.keep(BackgroundTask("publishing", loop), Backoff(first_seconds=0.0))
    assert len(runs) == 3
    assert (tasks.failures("publishing"), tasks.failures("election")) == (2.0, 0.0)


@pytest.mark.parametrize(
    ("period_seconds", "seconds"),
    [
        pytest.param(20, 60, id="three periods"),
        pytest.param(0.5, 30, id="a period counts as ten seconds at least"),
        pytest.param(None, 10_000, id="a task without a period is never stuck"),
    ],
)
async def test_a_task_without_a_heartbeat_for_three_periods_is_stuck_until_it_beats(period_seconds, seconds):
    async with Kept().running(period_seconds) as tasks:
        tasks.pass_time(seconds)
        assert tasks.tasks.stuck is None
        tasks.pass_time(1)
        is_stuck = f"election: no heartbeat for {seconds + 1} s" if period_seconds else None
        assert tasks.tasks.stuck == is_stuck
        tasks.heartbeat()
        assert tasks.tasks.stuck is None
    tasks.heartbeat()
    tasks.pass_time(361)
    assert tasks.tasks.stuck is None


async def test_a_task_that_pauses_after_a_failure_is_not_missed():
    tasks = Kept()

    async def fail():
        tasks.began.set()
        raise OSError("gone")

    keep = tasks.tasks.keep(
        BackgroundTask("election", fail, 10), Backoff(first_seconds=3600, max_seconds=3600)
    )
    keeping = asyncio.create_task(keep)
    await tasks.began.wait()
    for _ in range(3):  # steps of the loop in which the failure is noticed
        await asyncio.sleep(0)
    assert tasks.failures("election") == 1
    tasks.pass_time(1000)
    assert tasks.tasks.stuck is None
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


async def test_time_is_counted_while_the_loop_turns():
    async with Kept().running(10) as tasks:
        counting = asyncio.create_task(tasks.tasks.count_time())
        await asyncio.sleep(35)
        counting.cancel()
        assert tasks.tasks.stuck.startswith("election: no heartbeat for 3")


async def test_what_runs_within_a_task_gives_its_heartbeat():
    tasks = Kept()

    async def request():
        tasks.pass_time(3 * 60)
        assert tasks.tasks.stuck is None
        beat()

    async def slow():
        for _ in range(3):
            await asyncio.create_task(request())

    await tasks.tasks.keep(BackgroundTask("publishing", slow, 60))
    beat()
