"""Whether the container runtime obeys CDI: one that is too old runs containers without it, silently."""

from __future__ import annotations

import re
from pathlib import Path

from agent.settings import AgentOptions, DeviceListStrategy

FIRST_CONTAINERD = (1, 7)
FIRST_CRIO = (1, 23)
MAX_CHARACTERS = 200
_VERSION = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>[0-9]+)\.(?P<minor>[0-9]+)")
_FALLBACK = (
    "upgrade it, or choose --device-list-strategy volume-mounts or envvar, with which a pod can lift its"
    " memory limit"
)


def cdi_problem(strategy: DeviceListStrategy, version: str | None) -> str | None:
    """Return why GPUs cannot be handed over by CDI under a runtime; None if they can, or need not.

    Args:
        strategy: how GPUs are handed over.
        version: the node's status.nodeInfo.containerRuntimeVersion; None where nobody said.
    """
    if strategy != "cdi":
        return None
    if version is None:
        return (
            "the container runtime's version is not known: give --runtime-version, or --runtime-version-file"
            " with what `python -m agent.runtime_version SOCKET FILE` wrote"
        )
    found = _VERSION.match(version)
    if found is None:
        return f'the container runtime\'s version "{version}" is not of the form containerd://1.7.27'
    name, number = found["name"], (int(found["major"]), int(found["minor"]))
    first = {"containerd": FIRST_CONTAINERD, "cri-o": FIRST_CRIO}.get(name)
    if first is None:
        return f"{name} is not known to obey CDI: {_FALLBACK}"
    if number < first:
        return f"{version} runs CDI devices without their limit and says nothing: {_FALLBACK}"
    return None


def stated_version(options: AgentOptions) -> str | None:
    """Return the runtime's version as the options or their file say it; None where they say none."""
    if options.runtime_version is not None or options.runtime_version_file is None:
        return options.runtime_version
    try:
        with Path(options.runtime_version_file).open(encoding="ascii", errors="replace") as file:
            return file.read(MAX_CHARACTERS).strip() or None
    except OSError:
        return None
