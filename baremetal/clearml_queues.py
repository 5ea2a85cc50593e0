"""Tasks of ClearML's queues, mirrored into the store while they wait there.

A task stays in ClearML's queue until it starts: then ClearML's own agent takes it off (`--require-queue`),
and of two agents that try, one does. What a user reorders or removes in ClearML changes here too.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from baremetal.store import StoreError, TaskStore
from baremetal.task import GPUS, Submission
from service.log import get_logger

POLL_SECONDS = 5.0
MAX_MIRRORED = 16
"""Tasks of a queue, from its front: later ones come when these start."""
_SOURCE = "clearml:"
_AGENT = ("clearml-agent", "execute", "--require-queue", "--gpus", GPUS, "--id")


class ClearmlError(Exception):
    """ClearML's server or its package cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ClearmlEntry:
    """A task in a queue of ClearML."""

    task: str
    """Its id."""
    added: str
    """When it came; one that is put into the queue again is another entry."""


class QueueReader(Protocol):
    """What a mirror asks ClearML."""

    def entries(self, queue: str) -> Sequence[ClearmlEntry]:
        """Return the front of a queue.

        Raises:
            ClearmlError: the server does not answer, or has no such queue.
        """


class ClearmlServer:
    """ClearML's server, by its own client and as that is configured.

    Raises:
        ClearmlError: the client is not installed, or cannot log in.
    """

    def __init__(self) -> None:
        try:
            from clearml.backend_api.session.client import APIClient  # noqa: PLC0415 an extra of the package
        except ImportError as error:
            raise ClearmlError("--clearml needs the package clearml: pip install clearml") from error
        try:
            self._client: Any = APIClient()
        except Exception as error:
            raise ClearmlError(f"ClearML's server cannot be used: {_line(error)}") from error

    def entries(self, queue: str) -> Sequence[ClearmlEntry]:
        """Return the front of a queue."""
        try:
            found = self._client.queues.get_all(name=f"^{re.escape(queue)}$")
            entries = self._client.queues.get_by_id(queue=found[0].id).entries if found else None
        except Exception as error:
            raise ClearmlError(f"ClearML's server does not answer: {_line(error)}") from error
        if entries is None and not found:
            raise ClearmlError(f'ClearML has no queue "{queue}"')
        return [ClearmlEntry(str(each.task), str(each.added)) for each in (entries or [])[:MAX_MIRRORED]]


def mirror(entries: Mapping[str, Sequence[ClearmlEntry]], store: TaskStore, now: float) -> None:
    """Have the same tasks wait here, in the same order.

    Args:
        entries: by queue; queues that were not read are left out, and stay as they are.
        store: of this machine.
        now: Unix time.
    """
    present = set()
    for queue, found in entries.items():
        for position, entry in enumerate(found):
            source_id = f"{_SOURCE}{queue}:{entry.task}:{entry.added}"
            present.add(source_id)
            submission = Submission(
                queue=queue,
                command=(*_AGENT, entry.task),
                folder=str(Path.home()),
                env=dict(os.environ),
                priority=len(found) - position,
                source_id=source_id,
            )
            store.submit(submission, now)
    for task in store.waiting(-1):
        known = task.submission.source_id or ""
        if known.startswith(_SOURCE) and task.submission.queue in entries and known not in present:
            store.cancel(task.number, now)


class ClearmlMirror:
    """Mirrors queues in a thread of its own, in which the server may be slow.

    Args:
        reader: of the server.
        queues: names.
        folder: of the store.
    """

    def __init__(self, reader: QueueReader, queues: Sequence[str], folder: Path) -> None:
        self._reader = reader
        self._queues = queues
        self._folder = folder
        self._said = ""
        self._log = get_logger("clearml")

    def start(self) -> None:
        """Begin; it ends with the process."""
        threading.Thread(target=self._run, name="clearml", daemon=True).start()

    def look(self, store: TaskStore) -> None:
        """Mirror once; what cannot be read stays as it is, and is logged when it changes."""
        entries, errors = {}, []
        for queue in self._queues:
            try:
                entries[queue] = self._reader.entries(queue)
            except ClearmlError as error:
                errors.append(str(error))
        said = "; ".join(dict.fromkeys(errors))
        if said != self._said:
            self._log.error("queues are not read", error=said) if said else self._log.info("queues are read")
        self._said = said
        mirror(entries, store, time.time())

    def _run(self) -> None:
        store = TaskStore(self._folder)
        while True:
            try:
                self.look(store)
            except StoreError as error:
                self._log.error("queues are not mirrored", error=str(error))
            time.sleep(POLL_SECONDS)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
