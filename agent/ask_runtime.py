"""Asks a container runtime what it is and whether CDI is on, once: `python -m agent.ask_runtime SOCKET FILE`.

Access to the runtime's socket is root access to the node, so a short process asks, and not the agent.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import cast

import grpc
import msgspec

from agent.files import UNREADABLE, write_whole
from agent.kubelet_api import runtime_pb2
from agent.kubelet_api.runtime_pb2 import StatusRequest, VersionRequest
from agent.kubelet_api.services import Stub
from agent.runtime import Runtime

CALL_SECONDS = 5.0


class _Configuration(msgspec.Struct, rename={"cdi": "enableCDI"}):
    """The part of containerd's configuration that `crictl info` shows too."""

    cdi: bool | None = None


def ask(socket: str) -> Runtime:
    """Return version and CDI setting of the runtime behind a socket.

    Raises:
        grpc.RpcError: there is no answer.
    """
    with grpc.insecure_channel(f"unix:{socket.removeprefix('unix://')}") as channel:
        runtime = Stub(runtime_pb2, "RuntimeService", channel)
        answer = runtime.Version(VersionRequest(), timeout=CALL_SECONDS)
        info = runtime.Status(StatusRequest(verbose=True), timeout=CALL_SECONDS).info
    version, cdi = f"{answer.runtime_name}://{answer.runtime_version}", None
    with contextlib.suppress(*UNREADABLE):
        cdi = msgspec.json.decode(info.get("config", ""), type=_Configuration).cdi
    return Runtime(version, cdi)


def main() -> int:
    """Write the answer into the file; return 1 with the reason, for the kubelet to start it again."""
    socket, file = sys.argv[1:]
    try:
        answer = ask(socket)
    except grpc.RpcError as failed:
        why = cast("grpc.Call", failed).details()  # each that a call raises is one
        sys.stderr.write(f"the container runtime does not answer on {socket}: {why}\n")
        return 1
    write_whole(Path(file), msgspec.json.encode(answer) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
