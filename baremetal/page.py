"""The page of one machine: what its store says, as a ledger of one node, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import UTC, datetime
from pathlib import Path

from baremetal.store import StoreError, TaskStore
from baremetal.task import Task
from ledger.ledger import Ledger
from ledger.view import PendingView
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.log import get_logger
from web.page import Page
from web.source import About, LocalSource, WaitingReason

HOST = "127.0.0.1"
POLL_SECONDS = 1.0
MAX_WAITING = 1000
"""Waiting tasks that are read; the page lists fewer."""


class MachinePage:
    """Shows the store in `folder`, which other threads and processes change."""

    def __init__(self, folder: Path) -> None:
        self.source = LocalSource(Ledger())
        about = About(role=lambda: self._role, created=self._created, why_waiting=_why)
        self.app = Page(self.source, about)
        self._folder = folder
        self._role = ""
        self._tasks: dict[str, Task] = {}

    async def follow(self) -> None:
        """Read the store again and again, for ever."""
        while True:
            try:
                with contextlib.closing(TaskStore(self._folder)) as store:
                    self.look(store)
            except StoreError as error:
                get_logger("page").error("the page is not up to date", error=str(error))
            await asyncio.sleep(POLL_SECONDS)

    def look(self, store: TaskStore) -> None:
        """Show what the store says now."""
        if (machine := store.read_machine()) is None:
            return
        running, waiting = store.running(), store.waiting(MAX_WAITING)
        self._tasks = {str(task.number): task for task in [*running, *waiting]}
        self._role = "; ".join([f"queues of {machine.name}", *machine.faults.values(), *machine.warnings])
        before = self.source.ledger.names()
        machine.write_to(self.source.ledger, running, waiting)
        for name in {*before, machine.name, None}:
            self.source.mark(name)

    def _created(self, _namespace: str, number: str) -> str:
        task = self._tasks.get(number)
        seconds = (task.started_at or task.submitted_at) if task is not None else None
        return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds is not None else ""


async def _why(_waiting: PendingView) -> WaitingReason:
    return WaitingReason("waits for room")


def start_page(folder: Path, port: int) -> None:
    """Serve the page of a store in a thread, until the process ends.

    Raises:
        OSError: the port is not available; the message names it.
    """
    page, bound = MachinePage(folder), bind(HOST, port)
    address = f"http://localhost:{bound.getsockname()[1]}/"
    main = serve(
        [Listener(page.app, bound, role="page")],
        background=[page.follow()],
        on_started=lambda: get_logger("page").info("page", address=address),
        on_stopping=page.app.stop,
        stop_delay_seconds=0,
        signals=(),
    )
    threading.Thread(target=run, args=(main,), name="page", daemon=True).start()
