"""Tasks of ClearML's queues, mirrored into the store while they wait there.

A task stays in ClearML's queue until it starts: then ClearML's own agent takes it off (`--require-queue`),
and of two agents that try, one does. What a user reorders or removes in ClearML changes here too.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


class ClearmlEntry(NamedTuple):
    """A task in a queue of ClearML."""

    task: str
    """Its id."""
    added: str
    """When it came; one that is put into the queue again is another entry."""


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
        """Return the front of a queue.

        Raises:
            ClearmlError: the server does not answer, or has no such queue.
        """
        try:
            # A regular expression, in which the server also finds parts of names.
            found = self._client.queues.get_all(name=f"^{re.escape(queue)}$", max_task_entries=MAX_MIRRORED)
        except Exception as error:
            raise ClearmlError(f"ClearML's server does not answer: {_line(error)}") from error
        if not found:
            raise ClearmlError(f'ClearML has no queue "{queue}"')
        return [ClearmlEntry(str(each.task), str(each.added)) for each in found[0].entries or []]


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
                priority=len(found) - position,
                source_id=source_id,
            )
            store.submit(submission, now)
    for task in store.waiting(-1):
        known = task.submission.source_id or ""
        if known.startswith(_SOURCE) and task.submission.queue in entries and known not in present:
            store.cancel(task.number, now)


class Mirror:
    """Mirrors queues again and again; the server may be slow.

    Args:
        read: returns the front of a queue, as `ClearmlServer.entries`.
        queues: names.
        folder: of the store.
    """

    def __init__(
        self, read: Callable[[str], Sequence[ClearmlEntry]], queues: Sequence[str], folder: Path
    ) -> None:
        self._read = read
        self._queues = queues
        self._folder = folder
        self._said = ""
        self._log = get_logger("clearml")

    def look(self, store: TaskStore) -> None:
        """Mirror once; what cannot be read stays as it is, and is logged when it changes."""
        entries, errors = {}, []
        for queue in self._queues:
            try:
                entries[queue] = self._read(queue)
            except ClearmlError as error:
                errors.append(str(error))
        said = "; ".join(dict.fromkeys(errors))
        if said != self._said:
            self._log.error("queues are not read", error=said) if said else self._log.info("queues are read")
        self._said = said
        mirror(entries, store, time.time())

    def run(self) -> None:
        """Mirror for ever."""
        while True:
            with contextlib.suppress(StoreError), contextlib.closing(TaskStore(self._folder)) as store:
                self.look(store)
            time.sleep(POLL_SECONDS)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
