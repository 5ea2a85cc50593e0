"""fraction-injector submit: adds a task to a queue of this machine."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec
import typer

from baremetal.store import StoreError
from baremetal.task import MAX_PRIORITY, MAX_SUBMISSION_BYTES, Submission
from cli.options import fail
from cli.printing import say
from cli.task_options import StateOption, open_store, read_report


def submit(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Program and arguments.")],
    *,
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="NAME", help="Queue of the runner.")],
    priority: Annotated[
        int, typer.Option(min=-MAX_PRIORITY, max=MAX_PRIORITY, help="In its queue; higher ones go first.")
    ] = 0,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", show_default="what the queue says", help="Run it in a container."),
    ] = None,
    state: StateOption = None,
) -> None:
    """Add a task to a queue of `run-queues`, and print its number.

    It runs in this folder and with these variables, and prints to a log: `fraction-injector logs NUMBER`.
    """
    submission = Submission(
        queue=queue,
        command=tuple(command),
        folder=os.getcwd(),  # noqa: PTH109 a text
        env=dict(os.environ),
        image=image,
        priority=priority,
    )
    if len(msgspec.json.encode(submission)) > MAX_SUBMISSION_BYTES:
        fail(f"command and variables have more than {MAX_SUBMISSION_BYTES} bytes: put them into a file")
    store, _ = open_store(state)
    try:
        report = read_report(store)
        names = [name for name, _ in report.queues] if report is not None else []
        if report is not None and queue not in names:
            fail(f'no queue "{queue}": the runner serves {", ".join(names)}')
        number = store.submit(submission, time.time())
    except StoreError as error:
        fail(str(error))
    say(str(number))
    if report is None:
        say("it waits until run-queues is started", err=True)
