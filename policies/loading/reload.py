"""The policies in force. The directory is read again when the kubelet changes it: a whole set or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from policies.loading.loader import parse_policies, read_directory
from policies.loading.policy_set import PolicySet
from policies.model.problems import PolicyError

RELOAD_SECONDS = 1.0
"""Between two readings of the directory. The kubelet takes up to a minute to update a ConfigMap."""

LOCK_WAIT_READINGS = 5
"""Readings, one per second, before a set with another lock number comes into force. Helm writes the lock
after the policies, and an API server needs a second to load it; until then it would reject the set's pods."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of one reading of the directory."""

    digest: str | None
    """Digest of the set in force afterwards; None until there is a good one."""
    error: PolicyError | None = None
    """Why the set on disk is not usable; None if it is in force, or will be when its wait is over."""
    changed: bool = False
    """Whether the set in force changed."""
    adopted: bool = False
    """Whether the set in force came from `adopt` instead of the directory."""


Observer = Callable[[Reload], None]
"""Called with each result that differs from the one before: another set in force, or another error."""


class NoPoliciesError(Exception):
    """No set is in force: the directory has never had a good one."""


class LivePolicies:
    """Holds the last good set of a directory. Read `current` once for each decision.

    Args:
        directory: a policy directory, such as the mount point of a ConfigMap.
        observe: for log lines, metrics and readiness; called in the thread that reloads.
        may_wait: start without a set if the directory is broken, and use the first good one.
        clock: Unix seconds, to record when a set comes into force.

    Raises:
        PolicyError: the directory is broken at the start, and `may_wait` is False.
    """

    def __init__(
        self,
        directory: Path,
        observe: Observer = lambda _: None,
        *,
        may_wait: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self._clock = clock
        self.since: float | None = None
        """When the set in force came into force, in Unix seconds; None if there is none."""
        self._observe = observe
        self._files: Mapping[str, bytes] | None = None
        """Contents at the last reading; None if they could not be read."""
        self._current: PolicySet | None = None
        self.good_files: Mapping[str, bytes] | None = None
        """The files of the last good set in the directory; None if there was none."""
        self._adopted = False
        self._waiting: PolicySet | None = None
        self._readings_left = 0
        self.last = self._read()
        """The result of the last reading, for /readyz and the metric."""
        if self.last.error is not None:
            if not may_wait:
                raise self.last.error
            self._observe(self.last)

    @property
    def current(self) -> PolicySet:
        """The set in force. It is immutable, and replaced as a whole.

        Raises:
            NoPoliciesError: there is none yet.
        """
        if self._current is None:
            raise NoPoliciesError("the policy directory has had no valid set since the start")
        return self._current

    @property
    def missing(self) -> str | None:
        """Why no set is in force; None if one is."""
        return str(self.last.error) if self._current is None else None

    def adopt(self, files: Mapping[str, bytes]) -> None:
        """Put a set into force that another process read, if the directory has had no good one yet.

        The directory's first good set replaces it.

        Raises:
            PolicyError: a directory with these files would be rejected.
        """
        if self._current is not None:
            return
        self._current, self.since = parse_policies(files), self._clock()
        self._adopted = True
        self.last = Reload(self._current.digest, self.last.error, changed=True, adopted=True)
        self._observe(self.last)

    def reload(self) -> Reload:
        """Read the directory. If its set is broken, the last good one stays in force."""
        before = self.last
        self.last = result = self._read()
        if result.changed or str(result.error) != str(before.error):
            self._observe(result)
        return result

    def _read(self) -> Reload:
        try:
            files = read_directory(self.directory)
        except PolicyError as error:
            self._files = None
            return self._kept(error)
        if files == self._files:
            return self._after_wait()
        self._files, self._waiting = files, None
        try:
            fresh = parse_policies(files)
        except PolicyError as error:
            return self._kept(error)
        if self._has_another_lock(fresh):
            self._waiting, self._readings_left = fresh, LOCK_WAIT_READINGS
            return self._after_wait()
        return self._taken(fresh, files)

    def _has_another_lock(self, fresh: PolicySet) -> bool:
        """Whether the second lock checks the set's pods by other tables than those of the set in force."""
        if self._current is None:
            return False
        before, after = self._current.parts.lock_number, fresh.parts.lock_number
        return bool(before and after) and before != after

    def _after_wait(self) -> Reload:
        """Put the waiting set into force when its wait is over; without one, change nothing."""
        if self._waiting is None or self._files is None:
            return self._kept(self.last.error)
        if self._readings_left:
            self._readings_left -= 1
            return self._kept(None)
        fresh, self._waiting = self._waiting, None
        return self._taken(fresh, self._files)

    def _taken(self, fresh: PolicySet, files: Mapping[str, bytes]) -> Reload:
        self.good_files, self._adopted = files, False
        if self._current is not None and fresh.digest == self._current.digest:
            return Reload(fresh.digest)
        self._current, self.since = fresh, self._clock()
        return Reload(fresh.digest, changed=True)

    def _kept(self, error: PolicyError | None) -> Reload:
        digest = self._current.digest if self._current is not None else None
        return Reload(digest, error, adopted=self._adopted)

    async def watch(
        self,
        without: Callable[[], Awaitable[None]] | None = None,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the directory every second, until cancelled.

        Polling works however the files change, and cannot run out of a node's inotify watches. Reading
        happens in a thread, so that admission continues. After each reading that leaves no set in force,
        `without` is called, to `adopt` one. `heartbeat` is called after every reading.
        """
        while True:
            await asyncio.to_thread(self.reload)
            if self._current is None and without is not None:
                await without()
            heartbeat()
            await asyncio.sleep(RELOAD_SECONDS)
