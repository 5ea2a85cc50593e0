"""The runner with real processes, step by step."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from agent.shares import RefusedError
from baremetal.attempt import Attempt
from baremetal.job import MARK, JobFile
from baremetal.machine import Machine
from baremetal.runner import RETRY_SECONDS, Runner, attempt_folder
from baremetal.store import TaskStore
from baremetal.supervisor import stat_of
from baremetal.task import OVER
from testbed.process import eventually
from tests.baremetal.support.machine import cards, served, submission


class Box:
    """A machine with a store; each of its runners goes on where the last was killed."""

    def __init__(self, folder):
        self.folder = folder
        self.store = TaskStore(folder)
        self.faults = {}
        self.now = 0.0
        self.cards = ()
        self.job = lambda task, mark: JobFile(
            command=task.submission.command, folder="/", env=dict(os.environ) | {MARK: mark}
        )
        self.runner = None
        self.runners = []

    def start(self, *queues, count=1):
        """A runner as after a start; one of before is forgotten, as if it was killed."""
        given = {"cards": self.cards or cards(count), "queues": served(*queues)}
        machine = Machine(name="box", slices_per_gpu=8, **given)
        job_of = lambda task, attempt: self.job(task, attempt.mark)  # noqa: E731
        self.runner = Runner(self.store, machine, self.folder, job_of, lambda: self.now)
        self.runners.append(self.runner)
        self.runner.adopt()
        self.runner.step(self.faults)

    def free(self):
        return self.runner._machine.free(self.runner._running.values())

    def attempt(self, task):
        return self.runner._attempt(task)

    def submit(self, queue, *command):
        return self.store.submit(submission(queue, *command), time.time())

    def run(self, *command, queue="a=1"):
        """Submit a command, and start a runner for it; return the task's number."""
        number = self.submit("a", *command)
        self.start(queue)
        return number

    def states(self, *numbers):
        return [self.store.task(number).state for number in numbers]

    def turn(self):
        """One turn of the process's loop, after every pause of a queue."""
        self.now += RETRY_SECONDS
        self.runner.step(self.faults)

    def until_over(self, *numbers):
        def check():
            self.turn()
            return all(state in OVER for state in self.states(*numbers))

        eventually(check, f"tasks {numbers} are over")


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    for task in made.store.running():
        eventually(lambda task=task: kill(made.attempt(task)), "nothing is left")
    for supervisor in [each for runner in made.runners for each in runner._supervisors.values()]:
        supervisor.wait()
    made.store.close()


def kill(attempt):
    if attempt.state() == "running":
        os.kill(pid_of(attempt), signal.SIGKILL)
        return False
    return attempt.sweep()


def pid_of(attempt):
    return json.loads((attempt.folder / "begun").read_bytes())["pid"]


def begun(box, number):
    """Wait until a task's attempt has begun, and return its supervisor's pid."""
    attempt = box.attempt(box.store.task(number))
    eventually((attempt.folder / "begun").exists, "the begin")
    return pid_of(attempt)


def test_tasks_run_and_their_ends_are_noted(box):
    numbers = [box.submit("a", "sh", "-c", text) for text in ("exit 0", "exit 3", "kill -9 $$")]
    box.start("a=0.125")
    box.until_over(*numbers)
    assert [(box.store.task(each).state, box.store.task(each).exit_code) for each in numbers] == [
        ("succeeded", 0),
        ("failed", 3),
        ("failed", -9),
    ]
    assert box.free() == {0: 8}


def test_a_runner_that_is_killed_loses_nothing_and_the_next_one_goes_on(box):
    runs, waits = box.submit("a", "sleep", "1000"), box.submit("a", "true")
    box.start("a=1")
    pid = begun(box, runs)
    box.start("a=1")
    assert begun(box, runs) == pid
    assert box.states(runs, waits) == ["running", "waiting"]
    assert box.free() == {0: 0}
    os.kill(pid, signal.SIGTERM)
    box.until_over(runs, waits)
    assert box.states(runs, waits) == ["failed", "succeeded"]


def test_what_ended_while_no_runner_was_there_is_noted(box):
    number = box.run("sh", "-c", "exit 7")
    pid = begun(box, number)
    eventually(lambda: stat_of(pid) is None, "the end")
    wrote = json.loads((attempt_folder(box.folder, box.store.task(number)) / "exit.json").read_bytes())
    box.start("a=1")
    task = box.store.task(number)
    assert (task.state, task.exit_code, task.ended_at) == ("failed", 7, wrote["at"])


@pytest.mark.parametrize("wait", [False, True])
def test_a_runner_that_was_killed_between_its_note_and_the_start_runs_the_task_once(box, tmp_path, wait):
    number = box.submit("a", "sh", "-c", f"echo ran >> {tmp_path}/ran")
    box.job = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        box.start("a=1")
    task = box.store.task(number)
    box.job = lambda task, mark: JobFile(command=task.submission.command, folder="/", env=dict(os.environ))
    late = box.attempt(task)
    box.start("a=1")
    if wait:
        late.start(box.job(task, late.mark)).wait()
    box.until_over(number)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert (box.store.task(number).attempt, box.states(number)) == (2, ["succeeded"])


def test_a_task_whose_supervisor_was_killed_is_reported_and_not_run_again(box, tmp_path):
    ran = tmp_path / "ran"
    number = box.run("sh", "-c", f"echo ran >> {ran}; exec sleep 1000")
    pid = begun(box, number)
    # The shell makes the file before it writes into it.
    eventually(lambda: ran.exists() and ran.read_text(), "the command runs")
    os.kill(pid, signal.SIGKILL)
    box.until_over(number)
    task = box.store.task(number)
    assert (task.state, task.note) == ("lost", "it may not have done all its work: its supervisor was killed")
    assert ran.read_text() == "ran\n"
    assert box.free() == {0: 8}


def test_slices_are_free_only_when_nothing_of_the_task_runs_any_more(box, monkeypatch):
    number = box.run("sleep", "1000")
    swept = []
    monkeypatch.setattr(Attempt, "sweep", lambda _: swept.append(1) or len(swept) > 2)
    pid = begun(box, number)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: stat_of(pid) is None, "its end")
    box.runner.step({})
    assert (box.free(), box.states(number)) == ({0: 0}, ["running"])
    box.runner.step({})
    assert box.free() == {0: 0}
    box.runner.step({})
    assert (box.free(), box.states(number)) == ({0: 8}, ["lost"])


def test_a_start_that_never_began_has_its_queue_wait_and_no_other(box, monkeypatch):
    first, second = box.submit("a", "true"), box.submit("a", "true")
    with monkeypatch.context() as broken:
        broken.setattr("baremetal.supervisor.__file__", "/no/such/file")
        box.start("a=1", "b=1")
        box.runner._supervisors[first].wait()
    other = box.submit("b", "true")
    eventually(lambda: box.runner.step({}) or box.states(other) == ["succeeded"], "the other queue")
    assert box.states(first, second) == ["waiting", "waiting"]
    assert [box.store.task(each).attempt for each in (first, second)] == [2, 1]
    assert box.store.task(first).note == f"it did not begin: see {box.folder}/tasks/{first}/1/log"
    box.until_over(first, second)
    assert box.states(first, second) == ["succeeded", "succeeded"]


def test_a_share_that_cannot_be_given_fails_its_task_and_others_of_its_queue_go_on(box):
    def job(task, mark):
        if task.number == 1:
            raise RefusedError("the reserve leaves nothing")
        return JobFile(command=("true",), folder="/", env={"PATH": os.environ["PATH"]})

    box.job = job
    numbers = [box.submit("a"), box.submit("a")]
    box.start("a=1")
    box.until_over(*numbers)
    assert box.states(*numbers) == ["failed", "succeeded"]
    assert box.store.task(1).note == "the reserve leaves nothing"


def test_a_task_waits_while_the_machine_cannot_start_it(box):
    def broken(*_):
        raise OSError(28, "No space left on device")

    job, box.job = box.job, broken
    number = box.run("true")
    for _ in range(3):
        box.turn()
    task = box.store.task(number)
    assert (task.state, task.attempt) == ("waiting", 3)
    assert task.note == "it could not be started: [Errno 28] No space left on device"
    box.job = job
    box.until_over(number)
    assert (box.states(number), box.store.task(number).note) == (["succeeded"], "")


def test_nothing_starts_on_a_disk_that_is_full_and_what_waits_keeps_its_attempt(box, monkeypatch):
    number = box.submit("a", "true")
    with monkeypatch.context() as full:
        full.setattr("baremetal.store.RESERVE_BYTES", 2**63)
        box.start("a=1")
        box.turn()
        assert box.states(number) == ["waiting"]
    box.until_over(number)
    assert (box.states(number), box.store.task(number).attempt) == (["succeeded"], 1)


def test_cancelling_a_task_that_runs_ends_it_also_after_a_restart(box):
    number = box.run("sleep", "1000")
    begun(box, number)
    assert box.store.cancel(number, time.time()) == "running"
    box.start("a=1")
    box.until_over(number)
    assert (box.store.task(number).state, box.store.task(number).exit_code) == ("cancelled", -15)


def test_a_log_that_is_too_long_is_emptied_and_goes_on(box, monkeypatch):
    monkeypatch.setattr("baremetal.runner.MAX_LOG_BYTES", 100)
    number = box.run("sh", "-c", f"seq 100; until [ -e {box.folder}/go ]; do sleep 0.01; done; echo end")
    log = attempt_folder(box.folder, box.store.task(number)) / "log"
    eventually(lambda: b"100" in log.read_bytes(), "the long log")
    box.runner.step({})
    (box.folder / "go").touch()
    box.until_over(number)
    assert log.read_text() == "fraction-injector: the log was too long, and was emptied\nend\n"


def test_a_lost_card_gets_no_tasks_until_it_is_back_and_those_on_it_go_on(box):
    first = box.submit("a", "sleep", "1000")
    box.start("a=1", count=2)
    [index] = box.store.task(first).indices
    box.faults = {f"GPU-{index}": f"GPU {index} is out of service: it does not answer"}
    second, third = box.submit("a", "sleep", "1000"), box.submit("a", "true")
    box.turn()
    assert box.states(first, second, third) == ["running", "running", "waiting"]
    assert box.store.task(second).indices == (1 - index,)
    box.store.cancel(first, time.time())
    box.until_over(first)
    assert box.states(third) == ["waiting"]
    box.faults = {}
    box.until_over(third)
    box.store.cancel(second, time.time())
    box.until_over(second)


def test_an_adopted_task_has_the_slices_of_its_card_whatever_number_that_has_now(box):
    first = box.submit("a", "sleep", "1000")
    box.start("a=0.75", count=2)
    begun(box, first)
    [index] = box.store.task(first).indices
    box.cards = tuple(replace(card, index=1 - card.index) for card in cards(2)[::-1])
    box.start("a=0.75", count=2)
    assert box.free() == {1 - index: 2, index: 8}
    assert (box.store.task(first).gpus, box.store.task(first).indices) == ((f"GPU-{index}",), (1 - index,))
    second = box.submit("a", "true")
    box.turn()
    assert box.store.task(second).gpus == (f"GPU-{1 - index}",)
    box.store.cancel(first, time.time())
    box.until_over(first, second)
