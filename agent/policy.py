"""The policy of this node: compiled by a short process, and watched."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec

from agent.files import stamps_of
from agent.options import AgentOptions
from agent.settings import AgentPolicy
from service.background import beat
from service.log import get_logger

POLL_SECONDS = 5.0


class PolicyUnusableError(Exception):
    """There is no usable policy; the text says why."""


async def read_policy(options: AgentOptions) -> AgentPolicy:
    """Return the policy that the options name.

    Raises:
        PolicyUnusableError: with all that is wrong with the directory.
        OSError: no process can be started to read it.
    """
    command = sys.executable, "-m", "agent.policy_compiler", options.policies, options.policy
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()
        raise PolicyUnusableError(said or f"exit code {ended.returncode}")
    return msgspec.json.decode(ended.stdout, type=AgentPolicy)


class PolicyWatch:
    """Waits until the node's policy changes; made before the policy is read, it misses no change."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._files = stamps_of([options.policies])
        self._log = get_logger("policy")

    async def until_changed(self, policy: AgentPolicy) -> None:
        """Return when this policy has changed in the directory; invalid policies change nothing."""
        while not await self._has_changed(policy):
            await asyncio.sleep(POLL_SECONDS)
            beat()

    async def _has_changed(self, policy: AgentPolicy) -> bool:
        files, found = stamps_of([self._options.policies]), policy
        if files == self._files:
            return False
        try:
            found = await read_policy(self._options)
        except PolicyUnusableError as error:
            self._log.error("policies are broken: going on by the last good ones", error=str(error))
        self._files = files
        if found != policy:
            self._log.info("policy changed: the agent starts again", policy=policy.name)
        return found != policy
