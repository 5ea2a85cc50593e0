"""What the commands for tasks of one machine share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from baremetal.store import StoreError, TaskStore, own_folder, state_folder, take_lock
from cli.options import fail

StateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        show_default="$FRACTION_INJECTOR_STATE, ~/.local/state/fraction-injector, or of root"
        " /var/lib/fraction-injector",
        help="Folder of the tasks; their runner and those who submit have the same one.",
    ),
]


MachineOption = Annotated[
    bool, typer.Option("--machine", help="Of this machine's queues without Kubernetes, and of no cluster.")
]


def open_store(state: Path | None) -> tuple[TaskStore, Path]:
    """Return the tasks of this user and their folder, or end the command with what is wrong."""
    try:
        folder = own_folder(state_folder(state))
        return TaskStore(folder), folder
    except StoreError as error:
        fail(str(error))


def is_running(folder: Path) -> bool:
    """Whether a runner works in a folder."""
    try:
        lock = take_lock(folder)
    except StoreError:
        return False
    if lock is not None:
        os.close(lock)
    return lock is None
