"""What the agent's short processes print, from this process: most tests are not about processes."""

import json
from pathlib import Path

import msgspec

from agent.cdi_reader import card_devices
from agent.child_process import ChildError
from agent.policy_compiler import compile_policy
from policies.model.problems import PolicyError

RESULTS = {
    "agent.policy_compiler": lambda folder, name: msgspec.json.encode(compile_policy(Path(folder), name)),
    "agent.cdi_reader": lambda *folders: json.dumps(card_devices(map(Path, folders))).encode(),
}


class Child:
    """Does the work of a module of ours as soon as it is made."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._printed, self._said = b"", ""
        try:
            self._printed = RESULTS[module](*arguments)
        except (PolicyError, LookupError) as error:
            self._said = str(error)

    async def result(self) -> bytes:
        """Return it."""
        if self._said:
            raise ChildError(self._said)
        return self._printed
