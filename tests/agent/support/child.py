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


async def printed_by(module: str, *arguments: str) -> bytes:
    """What a module of ours prints."""
    try:
        return RESULTS[module](*arguments)
    except (PolicyError, LookupError) as error:
        raise ChildError(str(error)) from error
