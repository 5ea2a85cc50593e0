"""`machine run` as a process over NVML: the example, restarts, a lost card, a full disk, and random kills."""

import os
import random
import signal
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path

import pytest

from baremetal.job import MARK
from baremetal.store import TaskStore
from baremetal.supervisor import start_time
from baremetal.task import OVER
from testbed.process import eventually, tail
from tests.baremetal.support.machine import SEED
from tests.effort import by_turns
from tests.programs.baremetal.processes import Lab

SHARES = {"dual_gpus": 8, "quarter_gpu": 2, "half_gpu": 4, "single_gpu": 8}
"""Slices on each card."""
TASKS = by_turns("baremetal", usual=60, full=1000)
KILLS = by_turns("baremetal", usual=4, full=40)
"""Of runners; of tasks and supervisors there are as many again."""
MAX_IDLE_TURNS = 5000
"""Looks at all processes in a row in which no task ended: work and not time, as the machine may be busy."""


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, 3)
    yield made
    made.close()


def test_a_disk_that_is_full_stops_no_runner_and_what_waits_starts_when_there_is_room(lab):
    """A trigger refuses every change, as SQLite does where the disk is full."""
    lab.start("--queue", "x=1")
    with closing(TaskStore(lab.state)) as store:
        store._db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON task WHEN NEW.state != 'waiting'"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
        number = lab.submit("x", "true")
        eventually(lambda: "nothing starts until tasks can be written" in lab.log.read_text(), "it is said")
        assert lab.runner.exit_code is None
        store._db.execute("DROP TRIGGER full")
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it runs")
    assert (tasks[number].state, tasks[number].attempt) == ("succeeded", 1)


@pytest.mark.timeout(0)
def test_whatever_is_killed_each_task_runs_once_or_is_reported_and_no_card_is_over_full(lab):
    """Runners, supervisors and commands are killed at random; the sums are of processes, not of the store."""
    chance = random.Random(7)  # noqa: S311 kills, no secret
    queues = [chance.choice(list(SHARES)) for _ in range(TASKS)]
    for number, queue in enumerate(queues, start=1):
        lab.submit(queue, "sh", "-c", f"echo {number} >> {lab.folder}/ran; sleep {chance.random() / 4:.3f}")
    killed, before, idle = Counter(), 0, 0
    lab.start("--gpus", "0-2", "--queue", *SEED)
    while (tasks := lab.tasks()) and any(task.state not in OVER for task in tasks.values()):
        over = sum(task.state in OVER for task in tasks.values())
        before, idle = over, idle + 1 if over == before else 0
        assert idle < MAX_IDLE_TURNS, f"no task ends any more\n{tail(lab.log)}"
        found = processes(lab)
        assert all(each <= 8 for each in used_slices(found, queues).values()), "a card is over full"
        if found and killed["task"] < KILLS and chance.random() < 0.2:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(found).pid, signal.SIGKILL)
            killed["task"] += 1
        if over >= (killed["runner"] + 1) * TASKS // (KILLS + 1) and killed["runner"] < KILLS:
            lab.kill()
            killed["runner"] += 1
            lab.start("--gpus", "0-2", "--queue", *SEED)
        assert lab.runner.exit_code is None
    ran = Counter(map(int, (lab.folder / "ran").read_text().split()))
    assert killed["runner"] == KILLS
    assert killed["task"] > 0
    assert max(ran.values()) == 1
    for number, task in tasks.items():
        assert task.state in {"succeeded", "failed", "lost"}
        assert ran[number] == 1 or task.state != "succeeded", f"{task} did not run"
        assert task.state != "failed" or task.exit_code in {-9, 137} or task.note, (
            f"{task} failed without a reason"
        )
    assert sum(task.state != "succeeded" for task in tasks.values()) <= killed["task"]
    assert_in_order(tasks)


class Running:
    def __init__(self, pid, begun, variables):
        self.pid, self.begun = pid, begun
        self.task = int(variables[MARK].split("/")[1])
        self.cards = variables.get("CUDA_VISIBLE_DEVICES", "")


def processes(lab):
    """All processes of tasks of this machine, with supervisors, as the kernel has them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            begun = start_time(int(folder.name))
            pairs = [each.split("=", 1) for each in (folder / "environ").read_bytes().decode().split("\0")]
            variables = dict(pair for pair in pairs if len(pair) == 2)
            if MARK in variables and variables.get("LAB") == str(lab.folder):
                found.append(Running(int(folder.name), begun, variables))
    # One that ended meanwhile may have made room for another that was counted too.
    return [each for each in found if start_time(each.pid) == each.begun]


def used_slices(found, queues):
    """Slices of each card that processes have now."""
    used = defaultdict(int)
    for task, cards in {(each.task, each.cards) for each in found if each.cards}:
        for card in cards.split(","):
            used[card] += SHARES[queues[task - 1]]
    return used


def assert_in_order(tasks):
    """Tasks of a queue that began at the first attempt did so in their order."""
    begun = defaultdict(list)
    for number in sorted(tasks):
        if tasks[number].attempt == 1:
            begun[tasks[number].submission.queue].append(tasks[number].started_at)
    assert all(times == sorted(times) for times in begun.values())
