"""fraction-injector machine submit: adds a task to a queue of this machine."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec
import typer

from baremetal.store import StoreError, TaskStore
from baremetal.task import MAX_PRIORITY, MAX_SUBMISSION_BYTES, OVER, Submission
from cli.options import fail
from cli.task_options import FOLLOW_SECONDS, StateOption, add_task, open_store


def submit(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Program and arguments.")],
    *,
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="NAME", help="Queue of the runner.")],
    priority: Annotated[
        int, typer.Option(min=-MAX_PRIORITY, max=MAX_PRIORITY, help="In its queue; higher ones go first.")
    ] = 0,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the task has ended, with its exit code.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Add a task to a queue of `machine run`, and print its number.

    It runs in this folder and with these variables, and prints to a log: see `machine logs NUMBER`.
    """
    submission = _checked(queue, tuple(command), priority)
    store, _ = open_store(state, is_new=True)
    number = add_task(store, submission)
    if wait:
        raise typer.Exit(_exit_code(store, number))


def _exit_code(store: TaskStore, number: int) -> int:
    """Wait until a task has ended; return its exit code as shells have it, and 1 if it has none."""
    while True:
        try:
            task = store.task(number)
        except StoreError as error:
            fail(str(error))
        if task is None or task.state in OVER:
            break
        time.sleep(FOLLOW_SECONDS)
    if task is not None and task.state == "succeeded":
        return 0
    code = (task.exit_code if task is not None else None) or 1
    return code if code > 0 else 128 - code


def _checked(queue: str, command: tuple[str, ...], priority: int) -> Submission:
    """Return what to submit, or end the command with why it cannot be."""
    try:
        folder = os.getcwd()  # noqa: PTH109 a text
        env = dict(os.environ)
        submission = Submission(queue=queue, command=command, folder=folder, env=env, priority=priority)
        size = len(msgspec.json.encode(submission))
    except FileNotFoundError:
        fail("this folder is gone: change to another")
    except UnicodeEncodeError:
        fail("command, folder or a variable is no UTF-8 text: change or unset it")
    if size > MAX_SUBMISSION_BYTES:
        fail(f"command and variables have more than {MAX_SUBMISSION_BYTES} bytes: put them into a file")
    return submission
