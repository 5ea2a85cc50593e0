"""Lets NVIDIA's driver limit containers to their shares, which no program can lift.

NVIDIA's container toolkit has a hook for this in the cards' own CDI devices. It runs on the node before a
container starts, and reads the limit from the container's variables: the first of two with one name, which
the pod can set. Our hook runs the same program again, with a file of ours as the container's configuration.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.files import write_whole
from agent.shares import Share

FOLDER = "driver-limits"
LIMIT, REQUEST = "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST"
"""Variables from which the toolkit's program reads a limit, in MiB.

The request, by default as large as the limit, is added to `dmem.min` of every control group above the
container's, and stays there after the container has ended (NVIDIA: MPS v3 and memory partitioning).
"""
SHELL = "/bin/sh"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SCRIPT = r"""
if [ "$(sed "" "$0/config.json" 2>/dev/null)" != "$1" ]; then
  echo "no limit of GPU memory: $0/config.json is gone or changed:" \
    "delete the agent's pod on this node, then this pod" >&2
  exit 1
fi
shift
sed "s|\"bundle\": *\"[^\"]*\"|\"bundle\":\"$0\"|" | exec "$@"
""".strip()
"""Passes on the state of a container, as a runtime gives it to hooks, with another folder of configuration.

The toolkit's program succeeds, and limits nothing, if it cannot read a configuration or finds no limit in it.
"""


class LimitHook(msgspec.Struct, frozen=True):
    """The hook of NVIDIA's container toolkit that lets the driver limit a container's memory of a card."""

    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class DriverLimits:
    """Hooks for shares, and the files that they need on the node.

    Args:
        state_dir: the agent's folder, at the same path on the node.
        hooks: returns the current hooks of NVIDIA's toolkit, by the card's UUID.
    """

    def __init__(self, state_dir: str, hooks: Callable[[], Mapping[str, LimitHook]]) -> None:
        self._folder = Path(state_dir) / FOLDER
        self._hooks = hooks
        self._written: frozenset[int] = frozenset()
        """MiB of the shares with files."""

    def write(self, shares: Iterable[Share]) -> None:
        """Write the files that the hooks of shares need.

        Raises:
            OSError: the folder cannot be written.
        """
        limited = [share for share in shares if share.gpu.uuid in self._hooks()]
        wanted = {share.memory_mib for share in limited if share.memory_mib is not None}
        self._write(wanted)
        self._written |= wanted

    def keep(self, amounts: Collection[int]) -> None:
        """Remove the files of all other amounts of MiB that were written."""
        for mib in self._written.difference(amounts):
            shutil.rmtree(self._bundle(mib), ignore_errors=True)
            self._written -= {mib}

    def put_back(self) -> None:
        """Restore files that are missing or changed.

        Raises:
            OSError: the folder cannot be written.
        """
        self._write(self._written)

    def _write(self, amounts: Iterable[int]) -> None:
        for mib in amounts:
            write_whole(self._bundle(mib) / "config.json", _configuration(mib))

    def hooks(self, share: Share) -> list[dict[str, Any]]:
        """Return the hooks of a share's CDI device; none for a whole GPU, or if the toolkit has none."""
        hook = self._hooks().get(share.gpu.uuid)
        if share.memory_mib is None or hook is None:
            return []
        content = _configuration(share.memory_mib).decode()
        command = [hook.path, *hook.args[1:]]
        arguments = ["sh", "-c", _SCRIPT, str(self._bundle(share.memory_mib)), content, *command]
        return [{"hookName": "createRuntime", "path": SHELL, "args": arguments, "env": [PATH, *hook.env]}]

    def _bundle(self, mib: int) -> Path:
        return self._folder / str(mib)


def _configuration(mib: int) -> bytes:
    variables = [f"{REQUEST}=0", f"{LIMIT}={mib}"]
    return msgspec.json.encode({"ociVersion": "1.0.2", "process": {"env": variables}})
