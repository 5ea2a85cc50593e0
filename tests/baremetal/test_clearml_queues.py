"""ClearML's queues, mirrored: the rules."""

import json
from types import SimpleNamespace

import pytest

from baremetal.clearml_queues import MAX_MIRRORED, ClearmlQueues, mirror
from baremetal.machine import Start
from tests.baremetal.support.machine import cards, served, submission

A, B, C = ((name, "2026-01-01") for name in ("a", "b", "c"))
[HALF] = served("half=0.5")


def waiting(store):
    """ClearML's ids of waiting tasks, in the order in which they start."""
    return [task.submission.command[-1] for task in store.waiting(-1)]


@pytest.mark.parametrize(
    ("there", "here"), [([C, B, A], ["c", "b", "a"]), ([B], ["b"])], ids=["put first", "taken out"]
)
def test_what_changes_in_the_queue_there_changes_here(store, there, here):
    store.submit(submission("half", "stays"), 1.0)  # submitted here
    mirror({"half": [A, B]}, store, 1.0)
    assert waiting(store) == ["a", "b", "stays"]
    agent = ("clearml-agent", "execute", "--require-queue", "--gpus", "{gpus}", "--id", "a")
    assert store.task(2).submission.command == agent
    mirror({"half": there}, store, 1.0)
    assert waiting(store) == [*here, "stays"]


def test_looking_again_changes_nothing_and_writes_nothing(store):
    mirror({"half": [A, B]}, store, 1.0)
    before = store._db.total_changes
    mirror({"half": [A, B]}, store, 2.0)
    assert (waiting(store), store._db.total_changes) == (["a", "b"], before)


def test_what_was_cancelled_here_stays_cancelled_while_it_waits_there(store):
    mirror({"half": [A]}, store, 1.0)
    store.cancel(1, 2.0)
    mirror({"half": []}, store, 3.0)
    mirror({"half": [A]}, store, 4.0)
    assert (waiting(store), store.task(1).state) == ([], "cancelled")


def test_what_runs_here_goes_on_when_the_agent_takes_it_off_the_queue(store):
    mirror({"half": [A]}, store, 1.0)
    store.begin(Start(1, HALF, cards(1)), 2.0)
    mirror({"half": [A]}, store, 3.0)
    mirror({"half": []}, store, 4.0)
    assert (store.task(1).state, store.task(1).cancelled) == ("running", False)
    assert waiting(store) == []


def test_a_task_that_is_put_into_the_queue_again_runs_again(store):
    mirror({"half": [A]}, store, 1.0)
    store.begin(Start(1, HALF, cards(1)), 2.0)
    store.update(1, state="succeeded", ended_at=3.0, exit_code=0)
    mirror({"half": [A]}, store, 4.0)
    assert waiting(store) == []
    mirror({"half": [("a", "2026-01-02")]}, store, 4.0)
    assert waiting(store) == ["a"]


class Client:
    """Stands in for ClearML's client: what it has not cannot be read."""

    def __init__(self):
        self.queues = self
        self.there = {}

    def get_all(self, *, name, max_task_entries):
        found = self.there[name.strip("^$")]
        front = found and found[:max_task_entries]
        entries = front and [SimpleNamespace(task=task, added=added) for task, added in front]
        return [SimpleNamespace(entries=entries)]


def test_a_server_that_once_names_no_tasks_ends_none(store):
    client = Client()
    queues = ClearmlQueues(client, ["half"])
    for client.there in ({"half": [A, B]}, {"half": None}, {"half": [A, B]}):
        queues.look(store)
    assert waiting(store) == ["a", "b"]


def test_what_ended_here_and_still_waits_there_keeps_no_other_from_its_turn(store):
    client = Client()
    client.there = {"half": [(f"{number}", "2026-01-01") for number in range(5 * MAX_MIRRORED)]}
    queues = ClearmlQueues(client, ["half"])
    for turn in range(4):
        queues.look(store)
        assert waiting(store) == [f"{turn * MAX_MIRRORED + each}" for each in range(MAX_MIRRORED)]
        for task in store.waiting(-1):
            store.cancel(task.number, 2.0)


def test_a_queue_that_cannot_be_read_stays_as_it_is_and_that_is_said_once(store, capfd):
    client = Client()
    client.there = {"half": [A], "dual": [B]}
    queues = ClearmlQueues(client, ["half", "dual"])
    queues.look(store)
    client.there = {"dual": []}
    for _ in range(2):
        queues.look(store)
    assert waiting(store) == ["a"]
    client.there["half"] = [A]
    queues.look(store)
    events = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]
    assert events == ["queues are not read", "queues are read"]
