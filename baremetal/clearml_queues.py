"""Tasks of ClearML's queues, mirrored into the store while they wait there.

A task stays in ClearML's queue until it starts: of two agents that then take it off it, one succeeds.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from baremetal.store import StoreError, TaskStore
from baremetal.task import GPUS, Submission
from service.log import get_logger

POLL_SECONDS = 5.0
MAX_MIRRORED = 16
"""Tasks of a queue that have not ended here, from its front: later ones come when these start."""
MAX_READ = 1000
_SOURCE = "clearml:"
Entry = tuple[str, str]
"""Id of a task, and when it came: one that is put into a queue again is another entry."""
_AGENT = ("clearml-agent", "execute", "--require-queue", "--gpus", GPUS, "--id")


class ClearmlError(Exception):
    """ClearML's server or its package cannot be used; the text says why."""


def log_in() -> Any:
    """Return ClearML's own client, as it is configured.

    Raises:
        ClearmlError: it is not installed, or cannot log in.
    """
    try:
        from clearml.backend_api.session.client import APIClient  # noqa: PLC0415 an extra of the package

        return APIClient()
    except ImportError as error:
        install = f"{sys.executable} -m pip install clearml"
        raise ClearmlError(f"--clearml needs the package clearml next to this program: {install}") from error
    except Exception as error:
        raise ClearmlError(f"ClearML's server cannot be used: {_line(error)}") from error


class ClearmlQueues:
    """Queues of ClearML's server by their names; `client` is that of `log_in`."""

    def __init__(self, client: Any, names: Sequence[str]) -> None:
        self._client = client
        self._names = names
        self._said = ""
        self._log = get_logger("clearml")

    def follow(self, folder: Path) -> None:
        """Mirror them into the store of a folder for ever; the server may be slow."""
        while True:
            with contextlib.suppress(StoreError), contextlib.closing(TaskStore(folder)) as store:
                self.look(store)
            time.sleep(POLL_SECONDS)

    def look(self, store: TaskStore) -> None:
        """Mirror once; what cannot be read stays as it is, and is logged when it changes."""
        entries, errors = {}, []
        for queue in self._names:
            try:
                entries[queue] = self._front(queue, store)
            except ClearmlError as error:
                errors.append(str(error))
        said = "; ".join(dict.fromkeys(errors))
        if said != self._said:
            self._log.error("queues are not read", error=said) if said else self._log.info("queues are read")
        self._said = said
        mirror(entries, store, time.time())

    def _front(self, queue: str, store: TaskStore) -> Sequence[Entry]:
        """Return the front of a queue, without what failed here before the agent took it off."""
        try:
            # A regular expression, in which the server also finds parts of names.
            found = self._client.queues.get_all(name=f"^{re.escape(queue)}$", max_task_entries=MAX_READ)
        except Exception as error:
            raise ClearmlError(f"ClearML's server does not answer: {_line(error)}") from error
        if not found:
            raise ClearmlError(f'ClearML has no queue "{queue}"')
        entries = [(str(each.task), str(each.added)) for each in found[0].entries or []]
        left = (each for each in entries if not store.is_over(_source_id(queue, each)))
        return list(islice(left, MAX_MIRRORED))


def mirror(entries: Mapping[str, Sequence[Entry]], store: TaskStore, now: float) -> None:
    """Have the same tasks wait here, in the same order; `now` is Unix time.

    Queues that are not among the `entries` were not read, and stay as they are.
    """
    present = set()
    for queue, found in entries.items():
        for position, entry in enumerate(found):
            source_id = _source_id(queue, entry)
            present.add(source_id)
            submission = Submission(
                queue=queue,
                command=(*_AGENT, entry[0]),
                folder=str(Path.home()),
                priority=len(found) - position,
                source_id=source_id,
            )
            store.submit(submission, now)
    for known in store.waiting(-1):
        source_id = known.submission.source_id or ""
        if source_id.startswith(_SOURCE) and known.submission.queue in entries and source_id not in present:
            # Not cancelled: it comes again when those that others put before it have left the front.
            store.withdraw(known.number)


def _source_id(queue: str, entry: Entry) -> str:
    return f"{_SOURCE}{queue}:{entry[0]}:{entry[1]}"


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
