"""The policy of this node: compiled by a process that ends, and watched for changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.settings import AgentPolicy
from service.log import get_logger

POLL_SECONDS = 5.0


class PolicyUnusableError(Exception):
    """There is no policy to run by; the text says why."""


async def read_policy(directory: str, name: str) -> AgentPolicy:
    """Compile a policy in a process of its own.

    Raises:
        PolicyUnusableError: with all that is wrong with the directory.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "agent.policy_compiler", directory, name),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, said = await child.communicate()
    if child.returncode != 0:
        raise PolicyUnusableError(said.decode(errors="replace").strip() or f"exit code {child.returncode}")
    return msgspec.json.decode(printed, type=AgentPolicy)


class PolicyWatch:
    """Waits until the node's policy is another one."""

    def __init__(self, directory: str, name: str, policy: AgentPolicy) -> None:
        self._directory = directory
        self._name = name
        self._policy = policy
        self._files = _stamps(directory)
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
                policy = await read_policy(self._directory, self._name)
            except PolicyUnusableError as error:
                self._log.error("policies are broken: going on by the last good ones", error=str(error))
                continue
            if policy != self._policy:
                self._log.info("policy changed: the agent starts again", policy=self._name)
                return


def _stamps(directory: str) -> frozenset[tuple[str, int, int]]:
    """What tells one state of a directory from the next, also where a ConfigMap swaps a link."""
    stamps = set()
    try:
        for path in Path(directory).iterdir():
            status = path.stat()
            stamps.add((path.name, status.st_ino, status.st_mtime_ns))
    except OSError:
        return frozenset()
    return frozenset(stamps)
