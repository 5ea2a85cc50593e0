"""Starts waiting tasks as cards have room, and sees to their end. It may be killed at any moment.

The store says what may run, the folder of an attempt what did: both together say after a restart what became
of every task. A task's slices are free again only when nothing of it runs any more.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.cdi import CdiError
from agent.shares import RefusedError
from baremetal.attempt import Attempt, Exit, Supervised, Vanished
from baremetal.job import JobFile
from baremetal.machine import Machine, Start
from baremetal.queues import ServedQueue
from baremetal.store import TaskStore
from baremetal.task import Task, TaskState
from service.log import get_logger

POLL_SECONDS = 0.5
"""Between two looks for what users submitted or cancelled."""
MAX_ATTEMPTS = 3
"""Of a task that does not begin."""


class Runner:
    """Runs the tasks of a store on a machine.

    Args:
        store: has the tasks.
        machine: counts slices.
        queues: in the order of their priority.
        attempt_of: the folder of a task's attempt.
        job_of: what is started for a task.
        faults: why cards are out of service, as of now.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what it works with
        self,
        store: TaskStore,
        machine: Machine,
        queues: Sequence[ServedQueue],
        attempt_of: Callable[[Task], Attempt],
        job_of: Callable[[Task], JobFile],
        faults: Callable[[], Mapping[int, str]],
    ) -> None:
        self._store = store
        self._machine = machine
        self._queues = queues
        self._attempt_of = attempt_of
        self._job_of = job_of
        self._faults = faults
        self._known_faults: Mapping[int, str] = {}
        self._running: dict[int, Task] = {}
        """Whose slices are taken."""
        self._supervised: dict[int, Supervised] = {}
        self._cancelled: set[int] = set()
        """Whose supervisors were asked to end them."""
        self._seen = -1
        """Version of the store at the last look for starts."""
        self._has_changed = True
        """Whether there may be more room since."""
        self._poll = select.poll()
        self._log = get_logger("runner")

    def adopt(self) -> None:
        """Take over what runs since before, and find out what became of the rest."""
        for task in self._store.running():
            self._running[task.number] = task
            self._machine.adopt(task)
        for task in list(self._running.values()):
            self._look(task)
        self._log.info("tasks adopted", running=len(self._supervised))

    def close(self) -> None:
        """Leave all tasks to the next runner."""
        for supervised in self._supervised.values():
            supervised.reap()

    def step(self) -> None:
        """Do all that can be done now."""
        for number, task in list(self._running.items()):
            if number not in self._supervised:
                self._look(task)
        self._follow_cards()
        version = self._store.version()
        if version == self._seen and not self._has_changed:
            return
        self._seen, self._has_changed = version, False
        self._follow_cancelled()
        names = [queue.name for queue in self._queues]
        while (start := self._machine.next_start(self._queues, self._store.first(names))) is not None:
            self._start(start)

    def wait(self, seconds: float = POLL_SECONDS) -> None:
        """Return when a task ended, or after some time."""
        by_pidfd = {each.pidfd: number for number, each in self._supervised.items()}
        for pidfd, _ in self._poll.poll(seconds * 1000):
            number = by_pidfd[pidfd]
            self._poll.unregister(pidfd)
            self._supervised.pop(number).reap()
            self._cancelled.discard(number)
            self._look(self._running[number])

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def _start(self, start: Start) -> None:
        task = self._store.begin(start, time.time())
        if task is None:
            return
        self._running[task.number] = task
        self._machine.adopt(task)
        self._log.info("task starts", task=task.number, queue=start.queue.name, gpus=list(task.indices))
        try:
            self._watch(task, self._attempt_of(task).start(self._job_of(task)))
        except (OSError, RefusedError, CdiError) as error:
            self._log.error("task cannot be started", task=task.number, error=str(error))
            # It may have begun all the same, as where descriptors ran out: the next look finds out.
            self._store.set_note(task.number, f"it could not be started: {error}")

    def _watch(self, task: Task, supervised: Supervised) -> None:
        self._supervised[task.number] = supervised
        self._poll.register(supervised.pidfd, select.POLLIN)

    def _look(self, task: Task) -> None:
        """Find out what became of a task that nobody is known to supervise."""
        attempt = self._attempt_of(task)
        try:
            state = attempt.state()
            is_gone = isinstance(state, Exit) or (isinstance(state, Vanished) and attempt.sweep())
        except OSError as error:
            self._log.error("nobody can say what became of a task", task=task.number, error=str(error))
            return
        if isinstance(state, Supervised):
            self._watch(task, state)
        elif state is None:
            self._not_begun(task)
        elif is_gone:
            self._ended(task, state)

    def _ended(self, task: Task, state: Exit | Vanished) -> None:
        now = self._store.task(task.number) or task
        if isinstance(state, Vanished):
            note = "" if now.cancelled else f"it may not have done all its work: {state.why}"
            self._finish(task, "cancelled" if now.cancelled else "lost", note)
        else:
            how: TaskState = "cancelled" if now.cancelled else "failed" if state.code else "succeeded"
            self._finish(task, how, now.note, state)

    def _not_begun(self, task: Task) -> None:
        now = self._store.task(task.number) or task
        if now.cancelled:
            self._finish(task, "cancelled")
        elif task.attempt >= MAX_ATTEMPTS:
            self._finish(
                task, "failed", now.note or f"it did not begin in {MAX_ATTEMPTS} attempts: see its log"
            )
        else:
            self._store.put_back(task)
            self._release(task)

    def _finish(self, task: Task, state: TaskState, note: str = "", ended: Exit | None = None) -> None:
        at, code = (ended.at, ended.code) if ended is not None else (time.time(), None)
        self._store.finish(task.number, state, at, exit_code=code, note=note)
        self._log.info("task ended", task=task.number, state=state, exit_code=code, note=note)
        self._release(task)

    def _release(self, task: Task) -> None:
        del self._running[task.number]
        self._machine.release(task.number)
        self._has_changed = True

    def _follow_cancelled(self) -> None:
        for task in self._store.running():
            supervised = self._supervised.get(task.number)
            if task.cancelled and supervised is not None and task.number not in self._cancelled:
                self._cancelled.add(task.number)
                supervised.end()

    def _follow_cards(self) -> None:
        """Take cards out of service or back into it, and say so of the tasks on them."""
        faults, known = self._faults(), self._known_faults
        if faults == known:
            return
        for index in faults.keys() - known.keys():
            self._log.error("GPU is out of service", index=index, reason=faults[index])
        for index in known.keys() - faults.keys():
            self._log.info("GPU is in service again", index=index)
        self._known_faults, self._has_changed = faults, True
        self._machine.set_out_of_service(faults)
        for task in self._running.values():
            for index in set(task.indices) & faults.keys():
                self._store.set_note(task.number, f"GPU {index} is out of service: {faults[index]}")


def attempt_folder(tasks: Path, task: Task) -> Path:
    """Return the folder of a task's latest attempt."""
    return tasks / str(task.number) / str(task.attempt)
