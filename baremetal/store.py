"""The tasks of a machine: a folder with SQLite. Whatever was said to be done is on the disk.

One user owns the folder, and one runner works in it. Every change is a transaction of its own, and is
synchronised before the method returns. A task that may run is `running` here before anything starts for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent.private_folder import UntrustedError, private_folder
from baremetal.task import OVER, Submission, Task, TaskState

if TYPE_CHECKING:
    from baremetal.machine import Machine, Start

LOCK, TASKS, FILE = "runner.lock", "tasks", "tasks.sqlite"
"""In the folder; `TASKS` holds the attempts."""
RESERVE_BYTES = 256 * 2**20
"""Free on the disk, or nothing starts: by these it can be written how tasks end that run."""
BUSY_SECONDS = 60.0
"""A writer waits at most so long for another."""
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
  number INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, priority INTEGER NOT NULL,
  source_id TEXT UNIQUE, state TEXT NOT NULL, ended_at REAL, task BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS waiting ON task (state, queue, priority DESC, number);
CREATE TABLE IF NOT EXISTS machine (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class StoreError(Exception):
    """The folder or the tasks cannot be read or written; the text says why."""


def state_folder(given: Path | None) -> Path:
    """Return the folder that is named, or the usual one of this user."""
    if given is not None:
        return given.absolute()
    usual = "/var/lib" if os.geteuid() == 0 else os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(usual).expanduser() / "fraction-injector"


def own_folder(state: Path) -> Path:
    """Return the part of it that only this user can open: who writes there has commands run as this user.

    Raises:
        StoreError: it cannot be made, or is another user's.
    """
    try:
        if state.exists() and state.stat().st_mode & stat.S_IWOTH:
            raise StoreError(f"every user can write to {state}: name a folder of your own with --state")
        return private_folder(state)
    except (UntrustedError, OSError) as error:
        foreign = "it belongs to another user, and only that user can submit there"
        why = foreign if isinstance(error, UntrustedError) else error
        raise StoreError(f"{state} cannot be used: {why}; name a folder of your own with --state") from error


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has too little room for tasks to start."""
    return shutil.disk_usage(folder).free < RESERVE_BYTES


class TaskStore:
    """The tasks of one machine, in a file of `folder`. A process has one for itself, in one thread.

    Raises:
        StoreError: it cannot be opened, or is of a newer release.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._db = sqlite3.connect(folder / FILE, timeout=BUSY_SECONDS, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            [(version,)] = self._db.execute("PRAGMA user_version")
            if version == 0:
                self._db.executescript(_SCHEMA + f"PRAGMA user_version={_VERSION};")
        except sqlite3.Error as error:
            raise StoreError(f"{folder / FILE}: {error}") from error
        if version > _VERSION:
            raise StoreError(f"{folder / FILE} is of a newer release: update fraction-injector")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def submit(self, submission: Submission, now: float) -> int:
        """Add a task, and return its number. One of a source that is known gets only another priority."""
        with self._transaction():
            known = next(self._tasks("WHERE source_id = ?", submission.source_id), None)
            if known is None:
                self._write(Task(submission=submission, submitted_at=now))
                [[number]] = self._rows("SELECT last_insert_rowid()")
                return int(number)
            if known.state == "waiting" and known.submission != submission:
                self._write(msgspec.structs.replace(known, submission=submission))
            return known.number

    def first(self, queues: Collection[str]) -> dict[str, Task]:
        """Return the task of each queue that starts next."""
        where = "WHERE state = 'waiting' AND queue = ? ORDER BY priority DESC, number LIMIT 1"
        return {queue: task for queue in queues for task in self._tasks(where, queue)}

    def begin(self, start: Start, now: float) -> Task | None:
        """Note that a task may run from now on; None if it no longer waits, as it was cancelled."""
        fraction = start.queue.fraction
        changes: dict[str, Any] = {"state": "running", "started_at": now, "note": ""}
        changes |= {"slices": fraction.slices_on_each, "slices_per_gpu": fraction.slices_per_gpu}
        changes["gpus"] = tuple(card.uuid for card in start.cards)
        changes["indices"] = tuple(card.index for card in start.cards)
        with self._transaction():
            task = self._change(start.task, "waiting", **changes)
            for other in filter(None, map(self.task, start.overtook if task is not None else ())):
                self._change(other.number, "waiting", overtaken=other.overtaken + 1)
        return task

    def put_back(self, task: Task, note: str = "") -> None:
        """Have a task wait again that never began, in its old place."""
        again = {"attempt": task.attempt + 1, "gpus": (), "indices": (), "slices": 0, "started_at": None}
        self.update(task.number, state="waiting", note=note, **again)

    def update(self, number: int, **changes: Any) -> Task | None:
        """Change fields of a task that runs, such as its state, and return it; None if it does not run."""
        with self._transaction():
            return self._change(number, "running", **changes)

    def cancel(self, number: int, now: float) -> TaskState | None:
        """End a task that waits, or have the runner end it; return its state before, None if unknown."""
        with self._transaction():
            task = self.task(number)
            self._change(number, "waiting", state="cancelled", ended_at=now, cancelled=True)
            self._change(number, "running", cancelled=True)
        return task.state if task is not None else None

    def withdraw(self, number: int) -> None:
        """Remove a task that waits: its source, which has it no longer, may bring it again."""
        self._rows("DELETE FROM task WHERE number = ? AND state = 'waiting'", number)

    def task(self, number: int) -> Task | None:
        """Return one task."""
        return next(self._tasks("WHERE number = ?", number), None)

    def is_over(self, source_id: str) -> bool:
        """Return whether a task of a source has ended here."""
        return bool([*self._tasks(f"WHERE source_id = ? AND state IN {OVER}", source_id)])

    def running(self) -> list[Task]:
        """Return what may run."""
        return list(self._tasks("WHERE state = 'running' ORDER BY number"))

    def waiting(self, most: int) -> list[Task]:
        """Return tasks that wait, queue by queue in the order in which they start."""
        where = "WHERE state = 'waiting' ORDER BY queue, priority DESC, number LIMIT ?"
        return list(self._tasks(where, most))

    def over(self, most: int) -> list[Task]:
        """Return the tasks that ended last, the newest first."""
        where = f"WHERE state IN {OVER} ORDER BY ended_at DESC, number DESC LIMIT ?"
        return list(self._tasks(where, most))

    def forget(self, before: float) -> None:
        """Remove the tasks that ended before a time."""
        self._rows(f"DELETE FROM task WHERE state IN {OVER} AND ended_at < ?", before)  # noqa: S608 our own

    def write_machine(self, machine: Machine) -> None:
        """Keep what the runner says of the machine, for those who only read."""
        self._rows("INSERT OR REPLACE INTO machine VALUES ('machine', ?)", msgspec.json.encode(machine))

    def read_machine(self) -> Machine | None:
        """Return what the last runner said of the machine; None if there was none of this release."""
        from baremetal.machine import Machine  # noqa: PLC0415 help of commands does not wait for the ledger

        with contextlib.suppress(msgspec.ValidationError):
            for [said] in self._rows("SELECT value FROM machine WHERE key = 'machine'"):
                return msgspec.json.decode(said, type=Machine)
        return None

    def _change(self, number: int, of: TaskState, **changes: Any) -> Task | None:
        """Change a task that is in a state, and return it; None if it is in another. In a transaction."""
        task = self.task(number)
        if task is None or task.state != of:
            return None
        task = msgspec.structs.replace(task, **changes)
        self._write(task)
        return task

    def _write(self, task: Task) -> None:
        """Add or replace a task, with the columns by which tasks are found."""
        given, number = task.submission, task.number or None
        row = number, given.queue, given.priority, given.source_id, task.state, task.ended_at
        columns = "number, queue, priority, source_id, state, ended_at, task"
        insert = f"INSERT OR REPLACE INTO task ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 our own
        self._rows(insert, *row, msgspec.json.encode(task))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise StoreError(f"the tasks cannot be read or written: {error}") from error

    def _tasks(self, where: str, *values: Any) -> Iterator[Task]:
        for number, task in self._rows(f"SELECT number, task FROM task {where}", *values):  # noqa: S608 our own
            yield msgspec.structs.replace(msgspec.json.decode(task, type=Task), number=number)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the tasks cannot be read or written: {error}") from error
