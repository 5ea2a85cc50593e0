"""Tasks on the disk."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from baremetal.machine import Machine, Start
from baremetal.store import FILE, StoreError, TaskStore, own_folder, state_folder
from tests.baremetal.support.machine import cards, served, submission

[HALF, DUAL] = served("half=0.5", "dual=2")


@pytest.fixture
def store(tmp_path):
    with closing(TaskStore(tmp_path)) as opened:
        yield opened


def begun(store, number, indices=(0,), overtook=()):
    """A task that may run."""
    given = tuple(card for card in cards(3) if card.index in indices)
    return store.begin(Start(number, HALF, given, overtook), 5.0)


def test_what_was_submitted_is_there_for_the_next_process_with_all_that_was_said(store, tmp_path):
    wanted = submission("half", "python", "train.py", env={"A": "ä\n"}, priority=3)
    number = store.submit(wanted, 1.0)
    with closing(TaskStore(tmp_path)) as other:
        task = other.task(number)
    assert (task.number, task.submission, task.state, task.submitted_at) == (1, wanted, "waiting", 1.0)


def test_a_commit_is_synchronised_with_the_disk(store):
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_first_of_a_queue_is_the_one_of_highest_priority_then_the_oldest(store):
    numbers = [store.submit(submission("half", priority=each), 1.0) for each in (0, 5, 5, -1)]
    store.submit(submission("dual"), 0.0)
    first = store.first(["half", "dual", "none"])
    assert {name: task.number for name, task in first.items()} == {"half": 2, "dual": 5}
    order = []
    while first := store.first(["half"]).get("half"):
        order.append(first.number)
        begun(store, first.number)
    assert order == [2, 3, 1, 4]
    assert numbers == [1, 2, 3, 4]


def test_a_task_begins_once(store):
    store.submit(submission("half"), 1.0)
    task = begun(store, 1, (2,))
    assert (task.state, task.attempt, task.indices, task.slices, task.slices_per_gpu, task.started_at) == (
        "running",
        1,
        (2,),
        4,
        8,
        5.0,
    )
    assert begun(store, 1) is None
    assert store.running() == [task]


def test_a_start_counts_for_those_that_it_overtook(store):
    for queue in ("half", "dual"):
        store.submit(submission(queue), 1.0)
    begun(store, 1, overtook=(2,))
    assert store.first(["dual"])["dual"].overtaken == 1


def test_a_task_that_never_began_waits_again_in_its_place(store):
    for _ in range(2):
        store.submit(submission("half"), 1.0)
    begun(store, 1)
    store.put_back(store.task(1))
    assert store.first(["half"])["half"].number == 1
    assert (store.task(1).attempt, store.task(1).gpus, store.task(1).started_at) == (2, (), None)
    assert begun(store, 1).attempt == 2


def test_a_task_ends_once(store):
    store.submit(submission("half"), 1.0)
    begun(store, 1)
    running = store.task(1)
    store.update(1, state="failed", ended_at=9.0, exit_code=3, note="why")
    store.update(1, state="succeeded", ended_at=10.0, exit_code=0)
    store.put_back(running)
    store.update(1, note="late")
    task = store.task(1)
    assert (task.state, task.ended_at, task.exit_code, task.note) == ("failed", 9.0, 3, "why")


def test_cancelling_ends_what_waits_and_marks_what_runs(store):
    for _ in range(2):
        store.submit(submission("half"), 1.0)
    begun(store, 1)
    assert [store.cancel(1, 7.0), store.cancel(2, 7.0), store.cancel(9, 7.0)] == ["running", "waiting", None]
    assert (store.task(1).state, store.task(1).cancelled) == ("running", True)
    assert (store.task(2).state, store.task(2).ended_at) == ("cancelled", 7.0)
    assert store.cancel(2, 8.0) == "cancelled"
    assert begun(store, 2) is None


def test_a_task_of_a_source_comes_once(store):
    wanted = submission("half", source_id="clearml:a")
    assert [store.submit(wanted, 1.0), store.submit(wanted, 2.0)] == [1, 1]
    assert store.submit(submission("half"), 1.0) == 2
    assert store.submit(submission("half"), 1.0) == 3


def test_tasks_that_ended_long_ago_are_forgotten_and_their_numbers_are_not_given_again(store):
    for _ in range(3):
        store.submit(submission("half"), 1.0)
    begun(store, 1)
    store.update(1, state="succeeded", ended_at=10.0)
    store.cancel(3, 20.0)
    store.forget(15.0)
    assert store.task(1) is None
    assert [task.number for task in store.over(9)] == [3]
    store.forget(99.0)
    assert store.submit(submission("half"), 1.0) == 4


def test_lists_are_bounded(store):
    for _ in range(5):
        store.submit(submission("half"), 1.0)
    assert [task.number for task in store.waiting(2)] == [1, 2]
    for number in range(1, 6):
        store.cancel(number, float(number))
    assert [task.number for task in store.over(2)] == [5, 4]


def test_a_change_of_another_process_is_seen_and_our_own_is_not(store, tmp_path):
    before = store.version()
    store.submit(submission("half"), 1.0)
    assert store.version() == before
    with closing(TaskStore(tmp_path)) as other:
        other.submit(submission("half"), 1.0)
    assert store.version() != before


def test_what_the_runner_says_of_the_machine_is_kept(store):
    assert store.read_machine() is None
    for queues in ((), (HALF, DUAL)):
        machine = Machine(
            name="box",
            cards=cards(2),
            slices_per_gpu=8,
            queues=queues,
            numbers={1: "GPU-1"},
            faults={"a": "x"},
        )
        store.write_machine(machine)
        assert store.read_machine() == machine


def test_what_a_runner_of_another_release_said_of_the_machine_keeps_none_from_starting(store):
    store._rows("INSERT INTO machine VALUES ('machine', ?)", b'{"name": "box", "queues": {}}')
    assert store.read_machine() is None


def test_a_file_that_is_no_store_or_of_a_newer_release_is_refused_with_its_path(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database, but long enough to be read as one" * 99)
    with pytest.raises(StoreError, match=f"{FILE}: file is not a database"):
        TaskStore(tmp_path)
    (tmp_path / FILE).unlink()
    with closing(TaskStore(tmp_path)) as store:
        store._db.execute("PRAGMA user_version=9")
    with pytest.raises(StoreError, match="is of a newer release"):
        TaskStore(tmp_path)


def test_a_broken_store_says_so_whatever_is_asked(store):
    store._db.close()
    for ask in (
        store.running,
        store.version,
        lambda: store.cancel(1, 0.0),
        lambda: begun(store, 1),
        lambda: store.submit(submission(), 0.0),
    ):
        with pytest.raises(StoreError, match="cannot be read or written"):
            ask()


def test_a_store_that_another_keeps_locked_is_said_in_one_line_and_nothing_is_half_done(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("baremetal.store.BUSY_SECONDS", 0.01)
    with closing(TaskStore(tmp_path)) as store, closing(TaskStore(tmp_path)) as other:
        other._db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="the tasks cannot be read or written: database is locked"):
            store.submit(submission("half"), 1.0)
        assert store.waiting(9) == []
        other._db.execute("ROLLBACK")
        assert store.submit(submission("half"), 1.0) == 1


def test_the_folder_is_the_one_that_is_named_or_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder(None) == Path("/var/lib/fraction-injector")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert state_folder(None) == Path("/home/me/state/fraction-injector")
    monkeypatch.chdir(tmp_path)
    assert state_folder(Path("here")) == tmp_path / "here"


def test_only_its_user_can_open_it(tmp_path):
    folder = own_folder(tmp_path / "state")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "private").symlink_to("/usr")
    with pytest.raises(StoreError, match="only that user can submit there; name a folder of your own"):
        own_folder(tmp_path)


def test_a_folder_that_everybody_can_write_is_refused_and_left_as_it_is(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(StoreError, match=r"every user can write to .*: name a folder of your own"):
        own_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_another_users_folder_is_refused_without_advice_to_remove_it(tmp_path, monkeypatch):
    own_folder(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StoreError, match="only that user can submit there") as raised:
        own_folder(tmp_path)
    assert "remove" not in str(raised.value)


def test_a_note_of_an_earlier_attempt_is_gone_when_the_task_begins_again(store):
    store.submit(submission("half"), 1.0)
    store.put_back(begun(store, 1))
    begun(store, 1)
    store.update(1, note="it could not be started")
    store.put_back(store.task(1))
    assert begun(store, 1).note == ""
