"""The policies of the moment: a directory watched as the kubelet writes it, a whole set or nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from watchfiles import awatch
from watchfiles.main import FileChange

from policies.loader import load_policies
from policies.policy_set import PolicySet
from policies.problems import PolicyError

DEBOUNCE_MS = 400
RESYNC_MS = 10_000
"""Read anew this often anyway: a change before the watch began, or one that a network disk hid, is found."""


@dataclass(frozen=True, slots=True)
class Reload:
    """What became of one reading of the directory."""

    digest: str
    """Digest of the set in force after it."""
    error: PolicyError | None = None
    """Why the set on disk is not in force; None when it is."""
    changed: bool = False
    """Whether another set is in force than before."""


Observer = Callable[[Reload], None]
"""Told of every reload that changed something: the set in force, or whether the one on disk is good."""


class LivePolicies:
    """Holds the last good set of a directory; readers take `current` once for each decision.

    Args:
        directory: a policy directory, such as the mount point of a ConfigMap.
        observe: for log lines, metrics and readiness; called in the thread that reloads.

    Raises:
        PolicyError: the directory cannot be used at the start, when there is no last good set.
    """

    def __init__(self, directory: Path, observe: Observer = lambda _: None) -> None:
        self.directory = directory
        self._observe = observe
        self._current = load_policies(directory)
        self._last = Reload(self._current.digest)

    @property
    def current(self) -> PolicySet:
        """The set in force: immutable, replaced as a whole."""
        return self._current

    @property
    def last(self) -> Reload:
        """What became of the last reading, for /readyz and the metric."""
        return self._last

    def reload(self) -> Reload:
        """Read the directory; a broken set leaves the last good one in force."""
        before = self._last
        try:
            fresh = load_policies(self.directory)
        except PolicyError as error:
            result = Reload(self._current.digest, error)
        else:
            changed = fresh.digest != self._current.digest
            if changed:
                self._current = fresh
            result = Reload(fresh.digest, changed=changed)
        self._last = result
        if result.changed or str(result.error) != str(before.error):
            self._observe(result)
        return result

    async def watch(self, stop: asyncio.Event | None = None) -> None:
        """Reload whenever something in the directory changes, until `stop` is set or the task is cancelled.

        The directory is watched, not its files: the kubelet swaps the symlink `..data` and touches nothing
        else. Reading happens in a thread, so that admission goes on meanwhile. A directory that cannot be
        watched is read at intervals.
        """
        stop = stop or asyncio.Event()
        while not stop.is_set():
            # RuntimeError is how watchfiles says that the node's inotify instances are used up.
            with contextlib.suppress(OSError, RuntimeError):
                async for _ in self._changes(stop):
                    await asyncio.to_thread(self.reload)
            await asyncio.to_thread(self.reload)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RESYNC_MS / 1000)

    def _changes(self, stop: asyncio.Event) -> AsyncGenerator[set[FileChange], None]:
        return awatch(
            self.directory,
            watch_filter=None,
            recursive=False,
            stop_event=stop,
            debounce=DEBOUNCE_MS,
            rust_timeout=RESYNC_MS,
            yield_on_timeout=True,
        )
