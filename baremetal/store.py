"""The tasks of a machine: a folder with SQLite. Whatever was said to be done is on the disk.

One user owns the folder, and one runner works in it. Every change is a transaction of its own, and is
synchronised before the method returns. A task that may run is `running` here before anything starts for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent.private_folder import UntrustedError, open_own, private_folder
from baremetal.machine import FirstInQueue, MachineReport, Start
from baremetal.task import OVER, Submission, Task, TaskState

VARIABLE = "FRACTION_INJECTOR_STATE"
"""Names the folder where the command line does not."""
LOCK, TASKS, FILE = "runner.lock", "tasks", "tasks.sqlite"
"""In the folder; `TASKS` holds the attempts."""
BUSY_SECONDS = 60.0
"""A writer waits at most so long for another."""
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
  number INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, priority INTEGER NOT NULL,
  source_id TEXT UNIQUE, overtaken INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL, ended_at REAL, task BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS waiting ON task (state, queue, priority DESC, number);
CREATE TABLE IF NOT EXISTS machine (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class StoreError(Exception):
    """The folder or the tasks cannot be read or written; the text says why."""


def state_folder(given: Path | None) -> Path:
    """Return the folder that the command line names, the environment, or the usual one of this user."""
    if given is None and (named := os.environ.get(VARIABLE)):
        given = Path(named)
    if given is not None:
        return given.absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/fraction-injector")
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "fraction-injector"


def own_folder(state: Path) -> Path:
    """Return the part of it that only this user can open: who writes there has commands run as this user.

    Raises:
        StoreError: it cannot be made, or is another user's.
    """
    try:
        if state.exists() and state.stat().st_mode & stat.S_IWOTH:
            raise StoreError(f"everybody can write {state}: name a folder of your own with --state")
        return private_folder(state)
    except (UntrustedError, OSError) as error:
        foreign = "it is another user's, and only its user submits there"
        why = foreign if isinstance(error, UntrustedError) else error
        raise StoreError(f"{state} cannot be used: {why}; name a folder of your own with --state") from error


def take_lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of the runner; None if another runner holds it.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        file = open_own(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except (UntrustedError, OSError) as error:
        raise StoreError(f"{folder / LOCK} cannot be used: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


class TaskStore:
    """The tasks of one machine. A process has one for itself, in one thread.

    Args:
        folder: holds the file.

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
        known = self._value("SELECT number FROM task WHERE source_id = ?", submission.source_id)
        if known is not None:
            where = "WHERE number = ? AND state = 'waiting' AND priority != ?"
            changed = submission.priority, known, submission.priority
            self._rows(f"UPDATE task SET priority = ? {where}", *changed)  # noqa: S608 our own words
            return int(known)
        task = msgspec.json.encode(Task(submission=submission, submitted_at=now))
        insert = (
            "INSERT INTO task (queue, priority, source_id, state, task) VALUES (?, ?, ?, 'waiting', ?)"
            " RETURNING number"
        )
        return int(self._value(insert, submission.queue, submission.priority, submission.source_id, task))

    def first(self, queues: Collection[str]) -> dict[str, FirstInQueue]:
        """Return the task of each queue that starts next."""
        select = (
            "SELECT number, overtaken FROM task WHERE state = 'waiting' AND queue = ?"
            " ORDER BY priority DESC, number LIMIT 1"
        )
        found = {queue: self._rows(select, queue) for queue in queues}
        return {queue: FirstInQueue(*rows[0]) for queue, rows in found.items() if rows}

    def begin(self, start: Start, now: float) -> Task | None:
        """Note that a task may run from now on; None if it no longer waits, as it was cancelled."""
        fraction = start.queue.fraction
        has = {"slices": fraction.slices_on_each, "slices_per_gpu": fraction.slices_per_gpu}
        with self._transaction():
            changes = {"state": "running", "indices": start.indices, "started_at": now, "note": ""} | has
            task = self._change(start.task, "waiting", **changes)
            for number in start.overtook if task is not None else ():
                self._rows("UPDATE task SET overtaken = overtaken + 1 WHERE number = ?", number)
        return task

    def put_back(self, task: Task) -> None:
        """Have a task wait again that never began, in its old place."""
        again = {"attempt": task.attempt + 1, "indices": (), "slices": 0, "started_at": None}
        with self._transaction():
            self._change(task.number, "running", state="waiting", **again)

    def finish(
        self, number: int, state: TaskState, at: float, *, exit_code: int | None = None, note: str = ""
    ) -> None:
        """Note how a task ended that ran."""
        with self._transaction():
            self._change(number, "running", state=state, ended_at=at, exit_code=exit_code, note=note)

    def cancel(self, number: int, now: float) -> TaskState | None:
        """End a task that waits, or have the runner end it; return its state before, None if unknown."""
        with self._transaction():
            task = self.task(number)
            self._change(number, "waiting", state="cancelled", ended_at=now, cancelled=True)
            self._change(number, "running", cancelled=True)
        return task.state if task is not None else None

    def set_note(self, number: int, note: str) -> None:
        """Say something of a task that runs to its user."""
        with self._transaction():
            self._change(number, "running", note=note)

    def task(self, number: int) -> Task | None:
        """Return one task."""
        return next(self._tasks("WHERE number = ?", number), None)

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

    def identity(self) -> str:
        """Return a name for this store, made when it was: containers and variables carry it."""
        made = secrets.token_hex(4)
        self._rows("INSERT OR IGNORE INTO machine (key, value) VALUES ('identity', ?)", made)
        return str(self._value("SELECT value FROM machine WHERE key = 'identity'"))

    def write_machine(self, report: MachineReport) -> None:
        """Keep what the runner says of the machine, for those who only read."""
        insert = "INSERT OR REPLACE INTO machine (key, value) VALUES ('machine', ?)"
        self._rows(insert, msgspec.json.encode(report))

    def read_machine(self) -> MachineReport | None:
        """Return what the last runner said of the machine; None if there never was one."""
        said = self._value("SELECT value FROM machine WHERE key = 'machine'")
        return msgspec.json.decode(said, type=MachineReport) if said is not None else None

    def version(self) -> int:
        """Return a number that changes when another process changes something."""
        return int(self._value("PRAGMA data_version"))

    def _change(self, number: int, of: TaskState, **changes: Any) -> Task | None:
        """Change a task that is in a state, and return it; None if it is in another. In a transaction."""
        task = self.task(number)
        if task is None or task.state != of:
            return None
        task = msgspec.structs.replace(task, **changes)
        update = "UPDATE task SET state = ?, ended_at = ?, task = ? WHERE number = ?"
        self._rows(update, task.state, task.ended_at, msgspec.json.encode(task), number)
        return task

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows("BEGIN IMMEDIATE")
        try:
            yield
            self._rows("COMMIT")
        except BaseException:
            with contextlib.suppress(StoreError):  # SQLite may have done so itself
                self._rows("ROLLBACK")
            raise

    def _tasks(self, where: str, *values: Any) -> Iterator[Task]:
        for number, task in self._rows(f"SELECT number, task FROM task {where}", *values):  # noqa: S608 our own
            yield msgspec.structs.replace(msgspec.json.decode(task, type=Task), number=number)

    def _value(self, statement: str, *values: Any) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the tasks cannot be read or written: {error}") from error
