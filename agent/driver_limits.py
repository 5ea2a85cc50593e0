"""Has NVIDIA's driver hold containers to their shares, which no program can lift.

NVIDIA's container toolkit has a hook for it in the cards' own CDI devices. It runs on the node before a
container starts, and takes the limit from its variables: of two of a name the first, which the pod may set.
Ours runs the same program once more, and shows it a file of ours as the container's configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.files import write_whole
from agent.shares import Share

FOLDER = "driver-limits"
VARIABLES = ("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT")
"""What the toolkit's program takes a limit from, in MiB."""
_SHELL = "/bin/sh"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SCRIPT = r"""sed "s|\"bundle\": *\"[^\"]*\"|\"bundle\":\"$0\"|" | exec "$@" """.strip()
"""Hands on the state of a container, as a runtime gives it to hooks, with another folder of configuration."""


class LimitHook(msgspec.Struct, frozen=True):
    """How NVIDIA's container toolkit has the driver hold a container to memory of a card."""

    path: str
    args: tuple[str, ...]
    env: tuple[str, ...] = ()


class DriverLimits:
    """Hooks for shares, and the files that they need on the node.

    Args:
        state_dir: of the agent, at the same path on the node.
        hooks: says those of NVIDIA's toolkit by the card's uuid, as of now.
    """

    def __init__(self, state_dir: str, hooks: Callable[[], Mapping[str, LimitHook]]) -> None:
        self._folder = Path(state_dir) / FOLDER
        self._hooks = hooks

    def write(self, shares: Iterable[Share]) -> None:
        """Write what the hooks of shares need.

        Raises:
            OSError: the folder cannot be written.
        """
        limited = [share for share in shares if share.gpu.uuid in self._hooks()]
        for mib in {share.memory_mib for share in limited if share.memory_mib is not None}:
            variables = [f"{name}={mib}" for name in VARIABLES]
            content = msgspec.json.encode({"ociVersion": "1.0.2", "process": {"env": variables}})
            write_whole(self._bundle(mib) / "config.json", content)

    def hooks(self, share: Share) -> list[dict[str, Any]]:
        """Return the hooks of a share's CDI device; none for a whole GPU, nor where the toolkit has none."""
        hook = self._hooks().get(share.gpu.uuid)
        if share.memory_mib is None or hook is None:
            return []
        command = [hook.path, *hook.args[1:]]
        arguments = ["sh", "-c", _SCRIPT, str(self._bundle(share.memory_mib)), *command]
        return [{"hookName": "createRuntime", "path": _SHELL, "args": arguments, "env": [_PATH, *hook.env]}]

    def _bundle(self, mib: int) -> Path:
        return self._folder / str(mib)
