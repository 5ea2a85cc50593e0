"""fraction-injector machine tasks, logs and cancel: the tasks of this machine."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from baremetal.store import StoreError, TaskStore, is_full
from baremetal.task import OVER, Task
from cli.options import OutputFormat, OutputOption, fail
from cli.printing import camel, facts, rfc3339, say, say_json, table
from cli.task_options import FOLLOW_SECONDS, StateOption, add_task, is_running, open_store

if TYPE_CHECKING:
    from baremetal.machine import Machine

NumberArgument = Annotated[
    int, typer.Argument(metavar="NUMBER", min=1, max=2**63 - 1, help="Number of the task.")
]
MAX_WAITING, MAX_OVER = 200, 10
"""Tasks that are listed."""
MAX_COMMAND = 60
_CHUNK = 65536


def tasks(*, output: OutputOption = OutputFormat.TEXT, state: StateOption = None) -> None:
    """Show the tasks of this machine: those that run and wait, and the last that ended."""
    store, folder = open_store(state)
    try:
        running = store.running()
        listed = [*running, *store.waiting(MAX_WAITING), *store.over(MAX_OVER)]
        machine = store.read_machine()
    except StoreError as error:
        fail(str(error))
    if output is OutputFormat.JSON:
        say_json([_as_json(task) for task in listed])
        return
    lines = list(_machine_lines(machine, running, runs=is_running(folder)))
    if is_full(folder):
        lines.append("the disk is full: nothing starts until there is room")
    rows = [("NUMBER", "QUEUE", "STATE", "GPUS", "SLICES", "TIME", "COMMAND"), *map(_row, listed)]
    say("\n".join([*lines, table(rows) if listed else "no tasks"]))


def logs(
    number: NumberArgument,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    state: StateOption = None,
) -> None:
    """Print what a task printed."""
    # Here and not above: help does not wait for the runner's code.
    from baremetal.runner import attempt_folder  # noqa: PLC0415
    from baremetal.supervisor import LOG  # noqa: PLC0415

    store, folder = open_store(state)
    offset, attempt = 0, 0
    task = _known(store, number)
    if task.state == "waiting":
        turn = f"for its turn in queue {task.submission.queue}"
        say(
            f"task {number} waits {turn if is_running(folder) else 'until `machine run` is started'}",
            err=True,
        )
    while True:
        if task.attempt != attempt:
            offset, attempt = 0, task.attempt
        offset = _print(attempt_folder(folder, task) / LOG, offset)
        if not follow or task.state in OVER:
            break
        time.sleep(FOLLOW_SECONDS)
        task = _known(store, number)
    if task.note:
        say(f"task {number}: {task.note}", err=True)
    elif task.state in OVER and task.started_at is None:
        say(f"task {number} was cancelled before it ran", err=True)


def cancel(number: NumberArgument, *, state: StateOption = None) -> None:
    """End a task: one that waits at once, one that runs by SIGTERM, and SIGKILL ten seconds later."""
    store, folder = open_store(state)
    try:
        before = store.cancel(number, time.time())
    except StoreError as error:
        _end_without_note(store, folder, number, error)
        return
    if before is None:
        fail(f"no task {number}")
    if before in OVER:
        fail(f"task {number} {'has' if before in {'succeeded', 'failed'} else 'is'} {before}")
    if before == "running" and not is_running(folder):
        say("it is ended once `machine run` is started again", err=True)


def _end_without_note(store: TaskStore, folder: Path, number: int, problem: StoreError) -> None:
    """End a task that runs through its supervisor, as where the disk is full; or fail with the problem."""
    from baremetal.attempt import Attempt  # noqa: PLC0415 as above
    from baremetal.runner import attempt_folder  # noqa: PLC0415

    task = _known(store, number)
    if task.state != "running":
        fail(str(problem))
    try:
        Attempt(attempt_folder(folder, task), mark="").end()
    except OSError as error:
        fail(f"{problem}; {error}")
    say(f"it is ended, and will be listed as failed: {problem}", err=True)


def retry(number: NumberArgument, *, state: StateOption = None) -> None:
    """Submit a task again that has ended, with its command, folder and variables; print its new number."""
    store, _ = open_store(state)
    task = _known(store, number)
    if task.state not in OVER:
        fail(f"task {number} is {task.state}: it has not ended")
    if task.submission.source_id is not None:
        fail(f"task {number} is ClearML's: put it into its queue again there")
    add_task(store, task.submission)


def _known(store: TaskStore, number: int) -> Task:
    try:
        task = store.task(number)
    except StoreError as error:
        fail(str(error))
    return task if task is not None else fail(f"no task {number}")


def _print(log: Path, offset: int) -> int:
    """Print a file from an offset on, unchanged, as it is the user's own; return where it ends."""
    try:
        with log.open("rb") as file:
            file.seek(offset if offset <= log.stat().st_size else 0)
            while chunk := file.read(_CHUNK):
                sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
            return file.tell()
    except FileNotFoundError:
        return offset
    except OSError as error:
        if error.filename is None:
            raise  # standard output
        fail(f"{log} cannot be read: {error.strerror}")


def _machine_lines(machine: Machine | None, running: list[Task], *, runs: bool) -> Iterator[str]:
    if machine is not None:
        yield f"{machine.name}: {machine.usage(running)}"
        yield from sorted(machine.faults.values())
        yield from (f"warning: {each}" for each in machine.warnings)
    if not runs:
        yield "no runner works: start fraction-injector machine run"


def _row(task: Task) -> tuple[str, ...]:
    state = f"{task.state} ({task.exit_code})" if task.exit_code else task.state
    if task.cancelled and task.state == "running":
        state = "ending"
    command = shlex.join(task.submission.command)
    command = command if len(command) <= MAX_COMMAND else f"{command[:MAX_COMMAND]}…"
    gpus = ",".join(map(str, task.indices)) or "-"
    return (
        str(task.number),
        task.submission.queue,
        state,
        gpus,
        str(task.slices * len(task.indices) or "-"),
        _duration(task),
        f"{command}  [{task.note}]" if task.note else command,
    )


def _duration(task: Task) -> str:
    """Return how long it has run or waited."""
    since = task.started_at if task.started_at is not None else task.submitted_at
    seconds = max(0, int((task.ended_at or time.time()) - since))
    hours, rest = divmod(seconds, 3600)
    how = "waits" if task.state == "waiting" else "ran" if task.started_at is not None else "waited"
    return f"{how} {hours}:{rest // 60:02}:{rest % 60:02}"


def _as_json(task: Task) -> dict[str, Any]:
    """Return a task for `-o json`, without its variables, which may hold secrets."""
    without = msgspec.structs.replace(task.submission, env={})
    times = {name: rfc3339(getattr(task, name)) for name in ("submitted_at", "started_at", "ended_at")}
    return {
        **facts(task),
        "submission": facts(without),
        **{camel(name): time for name, time in times.items()},
    }
