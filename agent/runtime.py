"""Whether the container runtime obeys CDI: one that is too old runs containers without it, silently."""

from __future__ import annotations

import re

import grpc

from agent.kubelet_api.runtime_pb2 import VersionRequest
from agent.kubelet_api.runtime_pb2_grpc import RuntimeServiceStub
from agent.settings import DeviceListStrategy

FIRST_CONTAINERD = (1, 7)
FIRST_CRIO = (1, 23)
CALL_SECONDS = 5.0
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
            "the container runtime's version is not known: start it, name its socket (--runtime-endpoint),"
            " or give --runtime-version"
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


async def runtime_version(endpoint: str) -> str | None:
    """Ask a runtime's socket for its version, as the node's status writes it; None where nobody answers."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{endpoint.removeprefix('unix://')}") as channel:
            answer = await RuntimeServiceStub(channel).Version(VersionRequest(), timeout=CALL_SECONDS)
    except grpc.aio.AioRpcError:
        return None
    return f"{answer.runtime_name}://{answer.runtime_version}"
