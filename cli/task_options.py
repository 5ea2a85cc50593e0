"""What the commands for tasks of one machine share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from agent.node_lock import NodeLock
from agent.private_folder import NAME as PRIVATE
from agent.private_folder import UntrustedError
from baremetal.store import FILE, LOCK, StoreError, TaskStore, own_folder, state_folder
from baremetal.task import Submission
from cli.options import fail
from cli.printing import say
from policies.model.problems import quoted

FOLLOW_SECONDS = 0.5
"""Between looks at a task that others run."""
START_SECONDS = 2.0
"""Until a runner that was just started holds its lock."""
StateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="FRACTION_INJECTOR_STATE",
        show_default="~/.local/state/fraction-injector, or of root /var/lib/fraction-injector",
        help="Folder of the tasks; their runner and those who submit have the same one.",
    ),
]


def open_store(state: Path | None, *, is_new: bool = False) -> tuple[TaskStore, Path]:
    """Return the tasks of this user and their folder, or end the command with what is wrong.

    Args:
        state: as the command line names it.
        is_new: whether a folder without tasks is fine, and is made.
    """
    named = state_folder(state)
    try:
        if not is_new and not (named / PRIVATE / FILE).exists():
            fail(f"there are no tasks in {named}: start `machine run`, or name its folder with --state")
        folder = own_folder(named)
        return TaskStore(folder), folder
    except (StoreError, OSError) as error:
        fail(str(error))


def add_task(store: TaskStore, submission: Submission) -> int:
    """Add a task, print its number and return it; or end the command, as where no runner serves its queue."""
    try:
        machine = store.read_machine()
        queue = submission.queue
        served = [each.name for each in machine.queues] if machine is not None else [queue]
        if queue not in served:
            fail(f"no queue {quoted(queue)}: the runner serves {', '.join(served)}")
        number = store.submit(submission, time.time())
    except StoreError as error:
        fail(str(error))
    say(str(number))
    if machine is None:
        say("it waits until `machine run` is started", err=True)
    return number


def is_running(folder: Path) -> bool:
    """Whether a runner works in a folder; one that was just started gets time to load."""
    lock, end = NodeLock(folder.parent, LOCK), time.monotonic() + START_SECONDS
    try:
        while lock.take():
            lock.release()
            if time.monotonic() >= end:
                return False
            time.sleep(FOLLOW_SECONDS)
    except UntrustedError:
        return False
    return True
