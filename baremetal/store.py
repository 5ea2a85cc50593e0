"""The tasks of a machine in SQLite: whatever was said to be done is on the disk.

Every change is a transaction of its own, and is synchronised before the method returns. A task that may run
is `running` here before anything is started for it.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baremetal.schedule import FirstInQueue, Start
from baremetal.task import OVER, Submission, Task, TaskState

FILE = "tasks.sqlite"
BUSY_SECONDS = 60.0
"""A writer waits at most so long for another."""
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  queue TEXT NOT NULL, priority INTEGER NOT NULL, state TEXT NOT NULL, submission BLOB NOT NULL,
  source_id TEXT UNIQUE, overtaken INTEGER NOT NULL DEFAULT 0, attempt INTEGER NOT NULL DEFAULT 0,
  indices BLOB NOT NULL DEFAULT '[]', slices INTEGER NOT NULL DEFAULT 0,
  slices_per_gpu INTEGER NOT NULL DEFAULT 0,
  submitted_at REAL NOT NULL, started_at REAL, ended_at REAL, exit_code INTEGER,
  note TEXT NOT NULL DEFAULT '', cancelled INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS waiting ON task (state, queue, priority DESC, number);
CREATE TABLE IF NOT EXISTS machine (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
_FIELDS = (
    "number, submission, state, attempt, indices, slices, slices_per_gpu, submitted_at, started_at, ended_at,"
    " exit_code, note, cancelled"
)


class StoreError(Exception):
    """The tasks cannot be read or written; the text says why."""


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
        row = (
            submission.queue,
            submission.priority,
            msgspec.json.encode(submission),
            submission.source_id,
            now,
        )
        return int(
            self._value(
                "INSERT INTO task (queue, priority, state, submission, source_id, submitted_at)"
                " VALUES (?, ?, 'waiting', ?, ?, ?) RETURNING number",
                *row,
            )
        )

    def first(self, queues: Collection[str]) -> dict[str, FirstInQueue]:
        """Return the task of each queue that starts next."""
        found: dict[str, FirstInQueue] = {}
        for queue in queues:
            rows = self._rows(
                "SELECT number, overtaken FROM task WHERE state = 'waiting' AND queue = ?"
                " ORDER BY priority DESC, number LIMIT 1",
                queue,
            )
            found.update((queue, FirstInQueue(*row)) for row in rows)
        return found

    def begin(self, start: Start, now: float) -> Task | None:
        """Note that a task may run from now on; None if it no longer waits, as it was cancelled."""
        fraction = start.queue.fraction
        with self._transaction():
            changed = self._db.execute(
                "UPDATE task SET state = 'running', attempt = attempt + 1, indices = ?, slices = ?,"
                " slices_per_gpu = ?, started_at = ? WHERE number = ? AND state = 'waiting'",
                (
                    msgspec.json.encode(start.indices),
                    fraction.slices_on_each,
                    fraction.slices_per_gpu,
                    now,
                    start.task,
                ),
            )
            if changed.rowcount:
                self._db.executemany(
                    "UPDATE task SET overtaken = overtaken + 1 WHERE number = ?",
                    [(number,) for number in start.overtook],
                )
        return self.task(start.task) if changed.rowcount else None

    def put_back(self, number: int) -> None:
        """Have a task wait again that never began, in its old place."""
        self._rows(
            "UPDATE task SET state = 'waiting', indices = '[]', slices = 0, started_at = NULL"
            " WHERE number = ? AND state = 'running'",
            number,
        )

    def finish(
        self, number: int, state: TaskState, now: float, *, exit_code: int | None = None, note: str = ""
    ) -> bool:
        """Note how a task ended; return whether it had not ended before."""
        statement = (
            "UPDATE task SET state = ?, ended_at = ?, exit_code = ?, note = ?"
            " WHERE number = ? AND state IN ('waiting', 'running') RETURNING number"
        )
        return bool(self._rows(statement, state, now, exit_code, note, number))

    def cancel(self, number: int, now: float) -> TaskState | None:
        """End a task that waits, or have the runner end it; return its state before, None if unknown."""
        with self._transaction():
            task = self.task(number)
            if task is not None and task.state == "waiting":
                self._db.execute(
                    "UPDATE task SET state = 'cancelled', ended_at = ?, cancelled = 1 WHERE number = ?",
                    (now, number),
                )
            elif task is not None and task.state == "running":
                self._db.execute("UPDATE task SET cancelled = 1 WHERE number = ?", (number,))
        return task.state if task is not None else None

    def set_note(self, number: int, note: str) -> None:
        """Say something of a task to its user."""
        self._rows("UPDATE task SET note = ? WHERE number = ?", note, number)

    def task(self, number: int) -> Task | None:
        """Return one task."""
        return next(self._tasks("WHERE number = ?", number), None)

    def running(self) -> list[Task]:
        """Return what may run."""
        return list(self._tasks("WHERE state = 'running' ORDER BY number"))

    def waiting(self, most: int) -> list[Task]:
        """Return tasks that wait, queue by queue in the order in which they start."""
        return list(
            self._tasks("WHERE state = 'waiting' ORDER BY queue, priority DESC, number LIMIT ?", most)
        )

    def over(self, most: int) -> list[Task]:
        """Return the tasks that ended last, the newest first."""
        where = f"WHERE state IN {OVER} ORDER BY ended_at DESC, number DESC LIMIT ?"
        return list(self._tasks(where, most))

    def forget(self, before: float) -> list[int]:
        """Remove the tasks that ended before a time, and return their numbers."""
        rows = self._rows(
            f"DELETE FROM task WHERE state IN {OVER} AND ended_at < ? RETURNING number",  # noqa: S608 our own
            before,
        )
        return [number for (number,) in rows]

    def identity(self) -> str:
        """Return a name for this store, made when it was: containers and variables carry it."""
        made = secrets.token_hex(4)
        self._rows("INSERT OR IGNORE INTO machine (key, value) VALUES ('identity', ?)", made)
        return str(self._value("SELECT value FROM machine WHERE key = 'identity'"))

    def write_machine(self, said: bytes) -> None:
        """Keep what the runner says of the machine, for those who only read."""
        self._rows("INSERT OR REPLACE INTO machine (key, value) VALUES ('machine', ?)", said)

    def read_machine(self) -> bytes | None:
        """Return what a runner said of the machine; None if there never was one."""
        said = self._value("SELECT value FROM machine WHERE key = 'machine'")
        return bytes(said) if said is not None else None

    def version(self) -> int:
        """Return a number that changes when another process changes something."""
        return int(self._value("PRAGMA data_version"))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise StoreError(f"the tasks cannot be read or written: {error}") from error

    def _tasks(self, where: str, *values: Any) -> Iterator[Task]:
        for row in self._rows(f"SELECT {_FIELDS} FROM task {where}", *values):  # noqa: S608 our own words
            yield _task(row)

    def _value(self, statement: str, *values: Any) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the tasks cannot be read or written: {error}") from error


def _task(row: Sequence[Any]) -> Task:
    number, submission, state, attempt, indices, *rest, cancelled = row
    slices, slices_per_gpu, submitted_at, started_at, ended_at, exit_code, note = rest
    return Task(
        number=number,
        submission=msgspec.json.decode(submission, type=Submission),
        state=state,
        attempt=attempt,
        indices=msgspec.json.decode(indices, type=tuple[int, ...]),
        slices=slices,
        slices_per_gpu=slices_per_gpu,
        submitted_at=submitted_at,
        started_at=started_at,
        ended_at=ended_at,
        exit_code=exit_code,
        note=note,
        cancelled=bool(cancelled),
    )
