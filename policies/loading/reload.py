"""The policies in force: a directory, read again as the kubelet changes it; a whole set or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from policies.loading.loader import parse_handed, parse_policies, read_directory
from policies.loading.policy_set import PolicySet
from policies.model.problems import PolicyError

RELOAD_SECONDS = 1.0
"""Between two readings of the directory; the kubelet itself takes up to a minute to bring a ConfigMap."""

SETTLING_LOOKS = 5
"""Readings, a second each, before a set with another number of the lock is in force: Helm writes the lock
after the policies, an API server takes a second to take it up, and before that refuses the set's pods."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The outcome of one reading of the directory."""

    digest: str | None
    """Digest of the set in force after it; None while there has been no good one."""
    error: PolicyError | None = None
    """Why the set on disk cannot be in force; None when it is, or will be when it has settled."""
    changed: bool = False
    """Whether another set is in force than before."""
    handed: bool = False
    """Whether the set in force is not of this directory: it was given to `adopt`."""


Observer = Callable[[Reload], None]
"""Called with every reload that changed something: the set in force, or whether the one on disk is good."""


class NoPoliciesError(Exception):
    """No set is in force yet: the directory has been broken since the start."""


class LivePolicies:
    """Holds the last good set of a directory; readers take `current` once for each decision.

    Args:
        directory: a policy directory, such as the mount point of a ConfigMap.
        observe: for log lines, metrics and readiness; called in the thread that reloads.
        may_wait: begin without a set where the directory is broken, and take the first good one.
        clock: Unix seconds, to tell since when a set is in force.

    Raises:
        PolicyError: the directory cannot be used at the start, and nobody may wait for a good one.
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
        self._since: float | None = None
        self._observe = observe
        self._files: Mapping[str, bytes] | None = None
        """As they were at the last reading; None when they could not be read."""
        self._current: PolicySet | None = None
        self._good_files: Mapping[str, bytes] | None = None
        self._handed = False
        self._settling: PolicySet | None = None
        self._looks_left = 0
        self._last = self._read()
        if self._last.error is not None:
            if not may_wait:
                raise self._last.error
            self._observe(self._last)

    @property
    def current(self) -> PolicySet:
        """The set in force: immutable, replaced as a whole.

        Raises:
            NoPoliciesError: there has been no good one yet.
        """
        if self._current is None:
            raise NoPoliciesError("the policy directory has been broken since the start")
        return self._current

    @property
    def missing(self) -> str | None:
        """Why no set is in force; None when one is."""
        return str(self._last.error) if self._current is None else None

    @property
    def last(self) -> Reload:
        """The outcome of the last reading, for /readyz and the metric."""
        return self._last

    @property
    def since(self) -> float | None:
        """When the set in force came into force, in Unix seconds; None while there is none."""
        return self._since

    @property
    def good_files(self) -> Mapping[str, bytes] | None:
        """The files of the last good set that the directory held; None while there has been none."""
        return self._good_files

    def adopt(self, files: Mapping[str, bytes]) -> None:
        """Put a set into force that somebody else read, where the directory has given none yet.

        It is read as if it stood in the directory, and the first good set of the directory follows it.

        Raises:
            PolicyError: the directory could not have given it.
        """
        if self._current is not None:
            return
        self._current, self._since = parse_handed(files), self._clock()
        self._handed = True
        self._last = Reload(self._current.digest, self._last.error, changed=True, handed=True)
        self._observe(self._last)

    def reload(self) -> Reload:
        """Read the directory; a broken set leaves the last good one in force."""
        before = self._last
        self._last = result = self._read()
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
            return self._settled()
        self._files, self._settling = files, None
        try:
            fresh = parse_policies(files)
        except PolicyError as error:
            return self._kept(error)
        if self._has_another_lock(fresh):
            self._settling, self._looks_left = fresh, SETTLING_LOOKS
            return self._settled()
        return self._taken(fresh, files)

    def _has_another_lock(self, fresh: PolicySet) -> bool:
        """Whether pods of a set are judged by other tables of the lock than those of the set in force."""
        if self._current is None:
            return False
        before, after = self._current.parts.lock_number, fresh.parts.lock_number
        return bool(before and after) and before != after

    def _settled(self) -> Reload:
        """Take the set that settles once it has done so; without one, all stays as it is."""
        if self._settling is None or self._files is None:
            return self._kept(self._last.error)
        if self._looks_left:
            self._looks_left -= 1
            return self._kept(None)
        fresh, self._settling = self._settling, None
        return self._taken(fresh, self._files)

    def _taken(self, fresh: PolicySet, files: Mapping[str, bytes]) -> Reload:
        self._good_files, self._handed = files, False
        if self._current is not None and fresh.digest == self._current.digest:
            return Reload(fresh.digest)
        self._current, self._since = fresh, self._clock()
        return Reload(fresh.digest, changed=True)

    def _kept(self, error: PolicyError | None) -> Reload:
        digest = self._current.digest if self._current is not None else None
        return Reload(digest, error, handed=self._handed)

    async def watch(
        self,
        without: Callable[[], Awaitable[None]] | None = None,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the directory every second, until cancelled.

        Its files are compared: nothing has to be known of how they change, and a node cannot run out of
        watches. Reading happens in a thread, so that admission goes on meanwhile. After each reading that
        leaves no set in force, `without` is called, to `adopt` one. `heartbeat` is called after each.
        """
        while True:
            await asyncio.to_thread(self.reload)
            if self._current is None and without is not None:
                await without()
            heartbeat()
            await asyncio.sleep(RELOAD_SECONDS)
