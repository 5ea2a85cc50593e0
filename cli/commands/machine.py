"""fraction-injector machine ledger and doctor: the cards of this machine, and what is wrong with it."""

from __future__ import annotations

from shutil import disk_usage
from typing import TYPE_CHECKING, Annotated

import typer

from baremetal.store import StoreError
from cli.commands.doctor import end_with
from cli.commands.ledger import FreeOption, LedgerOutputOption, WatchOption
from cli.options import LedgerOutput, OutputFormat, OutputOption, fail
from cli.task_options import StateOption, is_running, open_store

if TYPE_CHECKING:
    from ledger.view import LedgerView

MAX_WAITING = 1000
"""Waiting tasks that the ledger shows."""


def ledger(
    *,
    watch: WatchOption = False,
    output: LedgerOutputOption = LedgerOutput.TEXT,
    queue: Annotated[
        str | None, typer.Option(help="Only GPUs of which tasks of this queue hold a share.")
    ] = None,
    free: FreeOption = None,
    state: StateOption = None,
) -> None:
    """Show the cards of this machine slice by slice, and the tasks that hold them."""
    # Here and not above: help does not wait for the screen's code.
    from cli.ledger_filter import Filter  # noqa: PLC0415
    from cli.ledger_screen import show  # noqa: PLC0415
    from ledger.ledger import Ledger  # noqa: PLC0415

    store, _ = open_store(state)

    def read() -> LedgerView:
        try:
            machine, running, waiting = store.read_machine(), store.running(), store.waiting(MAX_WAITING)
        except StoreError as error:
            fail(str(error))
        if machine is None:
            fail("`machine run` was never started with this folder of tasks")
        made = Ledger()
        machine.write_to(made, running, waiting)
        return made.view()

    show(read, Filter(queue=queue, free=free), output, watch=watch)


def doctor(*, output: OutputOption = OutputFormat.TEXT, state: StateOption = None) -> None:
    """Check this machine: its runner, its cards, and its tasks. Exit status 1: a check failed."""
    from doctor.machine import check_machine  # noqa: PLC0415 the ledger needs no checks

    store, folder = open_store(state)
    try:
        lines = check_machine(
            store.read_machine(),
            runs=is_running(folder),
            running=store.running(),
            waiting=store.waiting(-1),
            free_bytes=disk_usage(folder).free,
        )
    except StoreError as error:
        fail(str(error))
    end_with(lines, output)
