"""Whether the container runtime supports CDI: one that does not silently starts containers without it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from agent.files import UNREADABLE
from agent.options import AgentOptions

FIRST_CONTAINERD = (1, 7)
ALWAYS_ON_CONTAINERD = (2, 4)
"""From this version on CDI cannot be turned off, and the setting is gone (containerd's RELEASES.md)."""
_VERSION = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>[0-9]+)\.(?P<minor>[0-9]+)")
_NOT_ASKED = (
    "the container runtime was not asked whether CDI is on: give --runtime-file, as `python -m"
    " agent.ask_runtime SOCKET FILE` writes it, or --cdi-enabled if you know that it is"
)


class Runtime(msgspec.Struct, frozen=True):
    """Version and CDI setting of a container runtime."""

    version: str
    """As in the node's status, such as containerd://1.7.27."""
    cdi: bool | None = None
    """Whether its configuration turns CDI on; None if it does not state that."""


def cdi_problem(options: AgentOptions) -> str | None:
    """Return why CDI cannot be used on this node; None if it can."""
    if options.cdi_enabled:
        return None
    runtime = stated_runtime(options)
    return _NOT_ASKED if runtime is None else _problem_of(runtime)


def _problem_of(runtime: Runtime) -> str | None:
    version = runtime.version
    found = _VERSION.match(version)
    if found is None:
        return f'the container runtime\'s version "{version[:60]}" is not of the form containerd://1.7.27'
    name, number = found["name"], (int(found["major"]), int(found["minor"]))
    if name not in {"containerd", "cri-o"}:
        return f"{name} is not known to obey CDI: use containerd or CRI-O"
    if name == "containerd" and number < FIRST_CONTAINERD:
        return f"{version} runs CDI devices without their limit and says nothing: upgrade it"
    if name == "cri-o" or runtime.cdi or (runtime.cdi is None and number >= ALWAYS_ON_CONTAINERD):
        return None
    if runtime.cdi is None:
        return (
            f"{version} does not say whether CDI is on: if you know that it is, set agent.cdiEnabled: true"
            " (--cdi-enabled)"
        )
    return (
        f"CDI is off in {version}: set enable_cdi = true in containerd's configuration, restart containerd,"
        " and delete this agent's pod"
    )


def stated_runtime(options: AgentOptions) -> Runtime | None:
    """Return the answer that `agent.ask_runtime` wrote; None without a readable file."""
    if options.runtime_file is None:
        return None
    try:
        return msgspec.json.decode(Path(options.runtime_file).read_bytes(), type=Runtime)
    except UNREADABLE:
        return None
