"""The policy of this node: compiled by a short process, stored for the next start, and watched."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.child_process import Child, ChildError
from agent.files import Files, stamps_of
from agent.options import AgentOptions
from agent.policy_cache import KeptPolicy, find_kept, keep
from agent.settings import AgentPolicy
from service.background import beat
from service.log import get_logger

POLL_SECONDS = 5.0


class PolicyUnusableError(Exception):
    """There is no usable policy; the text says why."""


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """A policy that is being compiled, or was stored before."""

    files: Files
    """Files of its directory before the compilation; empty for a stored policy, which is compiled later."""
    found: AgentPolicy | Child
    state_dir: Path


def begin_reading(options: AgentOptions) -> PolicyReading:
    """Start to read the policy: the stored one if it was compiled from these files, otherwise compile it."""
    state_dir = Path(options.state_dir)
    kept = find_kept(state_dir, Path(options.policies), options.policy)
    return begin_compiling(options) if kept is None else PolicyReading(frozenset(), kept, state_dir)


def begin_compiling(options: AgentOptions) -> PolicyReading:
    """Start to compile the policy, which takes most of a second."""
    files = stamps_of([options.policies])
    child = Child("agent.policy_compiler", options.policies, options.policy)
    return PolicyReading(files, child, Path(options.state_dir))


async def read_policy(reading: PolicyReading) -> AgentPolicy:
    """Return the policy when it is read; store a compiled one.

    Raises:
        PolicyUnusableError: with all that is wrong with the directory.
    """
    if isinstance(reading.found, AgentPolicy):
        return reading.found
    try:
        printed = await reading.found.result()
    except ChildError as error:
        raise PolicyUnusableError(str(error)) from error
    keep(reading.state_dir, printed)
    return msgspec.json.decode(printed, type=KeptPolicy).policy


class PolicyWatch:
    """Waits until the node's policy changes.

    Args:
        options: name the directory and the policy.
        policy: the policy that was read.
        files: files of the directory when that reading began; empty for a stored policy. None for the current
            files.
    """

    def __init__(self, options: AgentOptions, policy: AgentPolicy, files: Files | None = None) -> None:
        self._options = options
        self._policy = policy
        self._files = stamps_of([options.policies]) if files is None else files
        self._confirmed = asyncio.Event()
        if files is None or files:
            self._confirmed.set()
        self._log = get_logger("policy")

    async def until_changed(self) -> None:
        """Return when this policy has changed in the directory; invalid policies change nothing."""
        while not await self._has_changed():
            await asyncio.sleep(POLL_SECONDS)
            beat()

    async def is_confirmed(self, seconds: float) -> bool:
        """Return whether the policy was compiled since this process started; wait at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._confirmed.wait()
        return self._confirmed.is_set()

    async def _has_changed(self) -> bool:
        if self._confirmed.is_set() and stamps_of([self._options.policies]) == self._files:
            return False
        reading = begin_compiling(self._options)
        self._files = reading.files
        try:
            policy = await read_policy(reading)
        except PolicyUnusableError as error:
            consequence = (
                "going on by the last good ones" if self._confirmed.is_set() else "no share is given"
            )
            self._log.error(f"policies are broken: {consequence}", error=str(error))
            return False
        if policy != self._policy:
            self._log.info("policy changed: the agent starts again", policy=policy.name)
            return True
        self._confirmed.set()
        return False
