"""Starts waiting tasks as cards have room, and sees to their end. It may be killed at any moment.

The store says what may run, the folder of an attempt what did. A task's slices are free again only when
nothing of it runs any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from agent.cdi import CdiError
from agent.shares import RefusedError
from baremetal.attempt import Attempt, Exit
from baremetal.job import JobFile
from baremetal.machine import Machine, Start
from baremetal.store import TASKS, TaskStore, is_full
from baremetal.supervisor import LOG
from baremetal.task import Task, TaskState
from service.log import get_logger

MAX_LOG_BYTES = 2**30
"""Of one task."""
RETRY_SECONDS = 10.0
"""After a start that never began, nothing of its queue starts for so long: what broke may be well again."""


class Runner:
    """Runs the tasks of the store in `folder` on a machine.

    `job_of` returns what is started for a task's attempt; `clock` returns seconds that never go back.
    """

    def __init__(
        self,
        store: TaskStore,
        machine: Machine,
        folder: Path,
        job_of: Callable[[Task, Attempt], JobFile],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._machine = machine
        self._folder = folder
        self._job_of = job_of
        self._clock = clock
        self._pauses: dict[str, float] = {}
        """Until when nothing of a queue starts."""
        self._identity = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
        self._running: dict[int, Task] = {}
        """Whose slices are taken."""
        self._supervisors: dict[int, subprocess.Popen[bytes]] = {}
        """Those that this runner started."""
        self._log = get_logger("runner")

    def adopt(self) -> None:
        """Take over what runs since before, and find out what became of the rest."""
        self._store.write_machine(self._machine)
        for task in self._store.running():
            # The driver may number the cards otherwise by now.
            indices = tuple(card.index for card in self._machine.cards if card.uuid in task.gpus)
            self._running[task.number] = self._store.update(task.number, indices=indices) or task

    def step(self, faults: Mapping[str, str]) -> None:
        """Do all that can be done now; `faults` are those of `Machine`, as of now."""
        self._follow_tasks()
        if faults != self._machine.faults:
            self._log.warning("GPUs that are out of service", reasons=sorted(faults.values()))
            self._machine = msgspec.structs.replace(self._machine, faults=dict(faults))
            self._store.write_machine(self._machine)
        self._bound_logs()
        if is_full(self._folder):
            return
        now, names = self._clock(), [queue.name for queue in self._machine.queues]
        names = [name for name in names if self._pauses.get(name, now) <= now]
        while start := self._machine.next_start(self._running.values(), self._store.first(names)):
            self._start(start)

    def _attempt(self, task: Task) -> Attempt:
        mark = f"{self._identity}/{task.number}/{task.attempt}"
        return Attempt(attempt_folder(self._folder, task), mark)

    def _start(self, start: Start) -> None:
        if (task := self._store.begin(start, time.time())) is None:
            return
        self._running[task.number] = task
        self._log.info("task starts", task=task.number, queue=start.queue.name, gpus=list(task.indices))
        attempt = self._attempt(task)
        try:
            self._supervisors[task.number] = attempt.start(self._job_of(task, attempt))
        except RefusedError as error:
            self._end(task, "failed", time.time(), None, str(error))
        except (OSError, CdiError) as error:
            self._log.error("task cannot be started", task=task.number, error=str(error))
            # It may have begun all the same, as where descriptors ran out: the next look finds out.
            self._store.update(task.number, note=f"it could not be started: {error}")

    def _follow_tasks(self) -> None:
        """Find out what became of tasks that run, and end those that are cancelled."""
        cancelled = {task.number for task in self._store.running() if task.cancelled}
        for task in list(self._running.values()):
            supervisor = self._supervisors.get(task.number)
            try:
                if task.number in cancelled:
                    self._attempt(task).end()
                # One that has not begun yet would be kept from it by who asks.
                if supervisor is None or supervisor.poll() is not None:
                    self._look(task)
            except OSError as error:
                self._log.error("it is unknown how a task ended", task=task.number, error=str(error))

    def _bound_logs(self) -> None:
        """Empty logs that are too long: what writes them appends, and goes on at the new end."""
        for task in self._running.values():
            log = attempt_folder(self._folder, task) / LOG
            with contextlib.suppress(OSError):
                if log.stat().st_size > MAX_LOG_BYTES:
                    os.truncate(log, 0)
                    with log.open("ab") as file:
                        file.write(b"fraction-injector: the log was too long, and was emptied\n")

    def _look(self, task: Task) -> None:
        """Note how a task ended, or have it wait again if it never began."""
        attempt = self._attempt(task)
        state = attempt.state()
        is_lost = isinstance(state, Exit) and state.code is None
        if state == "running" or (is_lost and not attempt.sweep()):
            return
        task = self._store.task(task.number) or task
        at, code = (state.at, state.code) if state is not None else (time.time(), None)
        if task.cancelled:
            self._end(task, "cancelled", at, code, task.note)
        elif state is None:
            self._pauses[task.submission.queue] = self._clock() + RETRY_SECONDS
            self._store.put_back(task, task.note or f"it did not begin: see {attempt.folder / LOG}")
            self._forget(task)
        elif code is None:
            self._end(task, "lost", at, None, f"it may not have done all its work: {state.why}")
        else:
            self._end(task, "failed" if code else "succeeded", at, code, task.note)

    def _end(self, task: Task, how: TaskState, at: float, code: int | None, note: str) -> None:
        self._store.update(task.number, state=how, ended_at=at, exit_code=code, note=note)
        self._log.info("task ended", task=task.number, state=how, exit_code=code, note=note)
        self._forget(task)

    def _forget(self, task: Task) -> None:
        del self._running[task.number]
        self._supervisors.pop(task.number, None)


def attempt_folder(folder: Path, task: Task) -> Path:
    """Return the folder of a task's latest attempt, below that of the store."""
    return folder / TASKS / str(task.number) / str(task.attempt)
