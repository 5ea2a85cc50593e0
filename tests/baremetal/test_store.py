"""Tasks on the disk."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from baremetal.machine import Start
from baremetal.store import FILE, StoreError, TaskStore, own_folder, state_folder
from tests.baremetal.support.machine import cards, served, submission

[HALF, DUAL] = served("half=0.5", "dual=2")


def begun(store, number, indices=(0,), overtook=()):
    given = tuple(card for card in cards(3) if card.index in indices)
    return store.begin(Start(number, HALF, given, overtook), 5.0)


def test_a_commit_is_synchronised_with_the_disk(store):
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_first_of_a_queue_is_the_one_of_highest_priority_then_the_oldest(store):
    for priority in (0, 5, 5, -1):
        store.submit(submission("half", priority=priority), 1.0)
    store.submit(submission("dual"), 0.0)
    assert {name: task.number for name, task in store.first(["half", "dual", "none"]).items()} == {
        "half": 2,
        "dual": 5,
    }
    order = []
    while first := store.first(["half"]).get("half"):
        order.append(first.number)
        begun(store, first.number)
    assert order == [2, 3, 1, 4]


def test_a_task_begins_once(store):
    store.submit(submission("half"), 1.0)
    task = begun(store, 1, (2,))
    assert (task.state, task.attempt, task.indices, task.started_at) == ("running", 1, (2,), 5.0)
    assert (task.slices, task.slices_per_gpu) == (4, 8)
    assert begun(store, 1) is None
    assert store.running() == [task]


def test_a_start_counts_for_those_that_it_overtook(store):
    for queue in ("half", "dual"):
        store.submit(submission(queue), 1.0)
    begun(store, 1, overtook=(2,))
    assert store.first(["dual"])["dual"].overtaken == 1


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
    for ask in (store.running, lambda: store.cancel(1, 0.0), lambda: store.submit(submission(), 0.0)):
        with pytest.raises(StoreError, match="cannot be read or written"):
            ask()


def test_the_folder_is_the_one_that_is_named_or_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder(None) == Path("/var/lib/fraction-injector")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert state_folder(None) == Path("/home/me/state/fraction-injector")
    monkeypatch.chdir(tmp_path)
    assert state_folder(Path("here")) == tmp_path / "here"


def test_only_its_user_can_open_it(tmp_path, monkeypatch):
    folder = own_folder(tmp_path / "state")
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StoreError, match="only that user can submit there") as raised:
        own_folder(tmp_path / "state")
    assert "remove" not in str(raised.value)
    (tmp_path / "private").symlink_to("/usr")
    with pytest.raises(StoreError, match="only that user can submit there; name a folder of your own"):
        own_folder(tmp_path)


def test_a_folder_that_everybody_can_write_is_refused_and_left_as_it_is(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(StoreError, match=r"every user can write to .*: name a folder of your own"):
        own_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
