"""submit, tasks, logs and cancel, as a user of one machine calls them."""

import json
import time
from contextlib import closing

import pytest

from agent.node_lock import NodeLock
from baremetal.attempt import Attempt
from baremetal.machine import Machine, Start
from baremetal.store import LOCK, TASKS, StoreError, TaskStore, own_folder
from cli import task_options
from tests.baremetal.support.machine import cards, served, submission
from tests.cli.running import run


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("FRACTION_INJECTOR_STATE", str(tmp_path))
    monkeypatch.setattr(task_options, "START_SECONDS", 0)

    def call(*arguments):
        result = run("machine", *arguments)
        return result.returncode, result.output

    return call


@pytest.fixture
def store(tmp_path):
    """The tasks, in a folder as a runner makes it."""
    with closing(TaskStore(own_folder(tmp_path))) as opened:
        yield opened


def report(*queues):
    queues = served(*[f"{name}=0.5" for name in queues])
    return Machine(name="box", cards=cards(3), slices_per_gpu=8, queues=queues)


def begin(store, number, queue="half=0.5", indices=(0,)):
    [served_queue] = served(queue)
    given = tuple(card for card in cards(3) if card.index in indices)
    return store.begin(Start(number, served_queue, given), 5.0)


def test_a_task_that_is_submitted_runs_in_this_folder_with_these_variables(
    call, store, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINE", "1")
    submitted = call("submit", "--queue", "half", "--priority", "2", "python", "train.py", "--lr", "1")
    assert submitted == (0, "1\nit waits until `machine run` is started\n")
    said = store.task(1).submission
    assert (said.queue, said.folder, said.env["MINE"], said.priority) == ("half", str(tmp_path), "1", 2)
    assert said.command == ("python", "train.py", "--lr", "1")


def test_a_queue_that_the_runner_does_not_serve_is_refused_with_those_that_it_does(call, store):
    store.write_machine(report("half", "single"))
    assert call("submit", "--queue", "hlaf", "true") == (
        2,
        'fraction-injector: no queue "hlaf": the runner serves half, single\n',
    )
    assert call("submit", "--queue", "half", "true") == (0, "1\n")


@pytest.mark.parametrize(
    ("variable", "command", "said"),
    [
        (("LARGE", "x" * 2**20), "true", "variables have more than 1048576 bytes: put them into a file"),
        (("ODD", "\udcff"), "true", "command, folder or a variable is no UTF-8 text: change or unset it"),
        (("MINE", "1"), "\udcff", "command, folder or a variable is no UTF-8 text: change or unset it"),
    ],
    ids=["too large", "a variable that is no text", "a command that is no text"],
)
def test_what_cannot_be_submitted_is_refused_in_one_line(call, monkeypatch, variable, command, said):
    monkeypatch.setenv(*variable)
    code, output = call("submit", "--queue", "half", command)
    assert (code, said in output, output.count("\n")) == (2, True, 1)


def test_tasks_are_listed_with_the_use_of_the_machine(call, store):
    store.write_machine(report("half"))
    for _ in range(3):
        call("submit", "--queue", "half", "sleep", "60")
    begin(store, 1)
    begin(store, 2, "dual=2", (1, 2))
    code, output = call("tasks")
    lines = [line.split() for line in output.splitlines()]
    assert code == 0
    assert lines[0] == ["box:", "2.5", "of", "3", "GPUs", "in", "use", "(20", "of", "24", "slices)"]
    assert lines[1][:3] == ["no", "runner", "works:"]
    assert [line[:5] for line in lines[3:]] == [
        ["1", "half", "running", "0", "4"],
        ["2", "half", "running", "1,2", "16"],
        ["3", "half", "waiting", "-", "-"],
    ]


def test_tasks_as_json_hold_no_variables(call, store):
    store.submit(submission("half", "true", env={"SECRET": "of-the-user"}), 1.0)
    code, output = call("tasks", "--output", "json")
    [task] = json.loads(output)
    assert (code, task["number"], task["submission"]["command"]) == (0, 1, ["true"])
    assert "of-the-user" not in output
    assert (task["submittedAt"], task["startedAt"]) == ("1970-01-01T00:00:01Z", None)


def test_the_log_of_the_latest_attempt_is_printed_as_it_is_with_the_note_behind_it(call, store, tmp_path):
    store.submit(submission("half"), 1.0)
    begin(store, 1)
    folder = tmp_path / "private" / TASKS / "1" / "1"
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(b"one\ntwo")
    assert call("logs", "1") == (0, "one\ntwo")
    store.update(1, state="lost", ended_at=9.0, note="why")
    assert call("logs", "--follow", "1") == (0, "one\ntwotask 1: why\n")


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_who_reads_the_log_of_a_task_that_waits_is_told_so(call, store, monkeypatch, options):
    store.submit(submission("half"), 1.0)
    monkeypatch.setattr(time, "sleep", lambda _: store.cancel(1, 2.0))
    waits, cancelled = "task 1 waits until `machine run` is started\n", "task 1 was cancelled before it ran\n"
    assert call("logs", *options, "1") == (0, waits + (cancelled if options else ""))
    store.cancel(1, 3.0)
    assert call("logs", *options, "1") == (0, cancelled)


def test_cancelling_a_waiting_task_ends_it_and_a_running_one_is_for_the_runner(call, store):
    for _ in range(2):
        call("submit", "--queue", "half", "true")
    begin(store, 1)
    assert call("cancel", "1") == (0, "it is ended once `machine run` is started again\n")
    assert call("cancel", "2") == (0, "")
    assert (store.task(1).cancelled, store.task(2).state) == (True, "cancelled")
    assert call("cancel", "2") == (2, "fraction-injector: task 2 is cancelled\n")
    for command in ("logs", "cancel"):
        assert call(command, "7") == (2, "fraction-injector: no task 7\n")


@pytest.mark.parametrize("command", [["tasks"], ["cancel", "1"], ["ledger"], ["doctor"]])
def test_a_command_that_only_looks_makes_no_folder_and_changes_none(call, tmp_path, command):
    (tmp_path / "mine").mkdir(0o755)
    for folder in ("typo", "mine"):
        advice = "start `machine run`, or name its folder with --state"
        said = f"fraction-injector: there are no tasks in {tmp_path / folder}: {advice}\n"
        assert call(*command, "--state", str(tmp_path / folder)) == (2, said)
    assert [each.name for each in tmp_path.rglob("*")] == ["mine"]
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o755


def test_the_ledger_shows_the_machine_as_one_node(call, store):
    never = "fraction-injector: `machine run` was never started with this folder of tasks\n"
    assert call("ledger") == (2, never)
    store.write_machine(report("half"))
    store.submit(submission("half"), 1.0)
    begin(store, 1, indices=(1,))
    code, output = call("ledger", "--output", "json")
    [node] = json.loads(output)
    assert (code, node["name"], [gpu["capacity"] for gpu in node["gpus"]]) == (0, "box", [8, 8, 8])
    assert [[share["name"] for share in gpu["shares"]] for gpu in node["gpus"]] == [[], ["1"], []]


def test_doctor_fails_if_a_check_does_and_waits_for_a_runner_that_just_starts(
    call, store, tmp_path, monkeypatch
):
    store.write_machine(report("half"))
    code, output = call("doctor")
    assert (code, output.splitlines()[0][:7]) == (1, "failed ")
    lock = NodeLock(tmp_path, LOCK)
    assert lock.take()  # a runner can start
    lock.release()
    monkeypatch.setattr(task_options, "START_SECONDS", 60)
    monkeypatch.setattr(time, "sleep", lambda _: lock.take() or pytest.fail("it cannot start meanwhile"))
    code, output = call("doctor", "--output", "json")
    assert (code, {line["level"] for line in json.loads(output)}) == (0, {"ok"})
    lock.release()


def test_a_folder_that_is_gone_is_refused_in_one_line(call, store, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = "fraction-injector: this folder is gone: change to another\n"
    assert call("submit", "--queue", "half", "true") == (2, said)


def test_where_nothing_can_be_written_a_running_task_is_ended_through_its_supervisor(
    call, store, monkeypatch
):
    def full(*_):
        raise StoreError("disk is full")

    ended = []
    monkeypatch.setattr(TaskStore, "cancel", full)
    monkeypatch.setattr(Attempt, "end", lambda attempt: ended.append(attempt.folder.parts[-2:]))
    for _ in range(2):
        call("submit", "--queue", "half", "true")
    begin(store, 1)
    assert call("cancel", "1") == (0, "it is ended, and will be listed as failed: disk is full\n")
    assert call("cancel", "2") == (2, "fraction-injector: disk is full\n")
    assert ended == [("1", "1")]


def test_a_task_that_has_ended_can_be_submitted_again(call, store):
    call("submit", "--queue", "half", "--priority", "2", "--", "python", "train.py")
    assert call("retry", "1") == (2, "fraction-injector: task 1 is waiting: it has not ended\n")
    begin(store, 1)
    store.update(1, state="lost", ended_at=9.0)
    assert call("retry", "1") == (0, "2\nit waits until `machine run` is started\n")
    assert (store.task(2).submission, store.task(2).state) == (store.task(1).submission, "waiting")
    store.write_machine(report("single"))
    refused = 'fraction-injector: no queue "half": the runner serves single\n'
    assert call("retry", "1") == (2, refused)


@pytest.mark.parametrize(
    ("ended", "exit_code"),
    [(("succeeded", 0), 0), (("failed", 3), 3), (("failed", -9), 137), (("lost", None), 1)],
)
def test_who_waits_for_a_task_gets_its_exit_code(call, store, monkeypatch, ended, exit_code):
    def look(_):
        begin(store, 1)
        store.update(1, state=ended[0], ended_at=9.0, exit_code=ended[1])

    monkeypatch.setattr(time, "sleep", look)
    assert call("submit", "--wait", "--queue", "half", "true")[0] == exit_code
