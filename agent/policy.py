"""The policy of this node: compiled by a process that ends, and watched for changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.child import Child, ChildError
from agent.settings import AgentPolicy
from service.log import get_logger

POLL_SECONDS = 5.0
Files = frozenset[tuple[str, int, int]]
"""What tells one state of a directory from the next: name, inode and time of each file."""


class PolicyUnusableError(Exception):
    """There is no policy to run by; the text says why."""


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """A policy that is being compiled."""

    files: Files
    """Of its directory, before that began."""
    child: Child


def begin_reading(directory: str, name: str) -> PolicyReading:
    """Begin to compile a policy, which takes most of a second."""
    return PolicyReading(_stamps(directory), Child("agent.policy_compiler", directory, name))


async def read_policy(reading: PolicyReading) -> AgentPolicy:
    """Return the policy that was begun.

    Raises:
        PolicyUnusableError: with all that is wrong with the directory.
    """
    try:
        return msgspec.json.decode(await reading.child.result(), type=AgentPolicy)
    except ChildError as error:
        raise PolicyUnusableError(str(error)) from error


class PolicyWatch:
    """Waits until the node's policy is another one.

    Args:
        directory: of policies.
        name: of the policy.
        policy: as it was read.
        files: of the directory, when that reading began; None for those of now.
    """

    def __init__(self, directory: str, name: str, policy: AgentPolicy, files: Files | None = None) -> None:
        self._directory = directory
        self._name = name
        self._policy = policy
        self._files = _stamps(directory) if files is None else files
        self._log = get_logger("policy")

    async def until_changed(self, turned: Callable[[], None]) -> None:
        """Return once the directory says something else of this policy; a broken one changes nothing."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            turned()
            files = _stamps(self._directory)
            if files == self._files:
                continue
            self._files = files
            try:
                policy = await read_policy(begin_reading(self._directory, self._name))
            except PolicyUnusableError as error:
                self._log.error("policies are broken: going on by the last good ones", error=str(error))
                continue
            if policy != self._policy:
                self._log.info("policy changed: the agent starts again", policy=self._name)
                return


def _stamps(directory: str) -> Files:
    """What tells one state of a directory from the next, also where a ConfigMap swaps a link."""
    stamps = set()
    try:
        for path in Path(directory).iterdir():
            status = path.stat()
            stamps.add((path.name, status.st_ino, status.st_mtime_ns))
    except OSError:
        return frozenset()
    return frozenset(stamps)
