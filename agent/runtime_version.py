"""Asks a container runtime for its version, once: `python -m agent.runtime_version SOCKET FILE`.

Whoever holds the runtime's socket is root of the node, so that a process that ends asks, and not the agent.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import cast

import grpc

from agent.files import write_whole
from agent.kubelet_api.runtime_pb2 import VersionRequest
from agent.kubelet_api.runtime_pb2_grpc import RuntimeServiceStub

CALL_SECONDS = 5.0
TRIES = 6
"""A runtime that has just started this process answers others at once, or within a few seconds."""


def ask(socket: str) -> str:
    """Return the version of the runtime behind a socket, as the node's status writes it.

    Raises:
        grpc.RpcError: nobody answers.
    """
    with grpc.insecure_channel(f"unix:{socket.removeprefix('unix://')}") as channel:
        answer = RuntimeServiceStub(channel).Version(VersionRequest(), timeout=CALL_SECONDS)
    return f"{answer.runtime_name}://{answer.runtime_version}"


def main() -> int:
    """Write the version into the file; return 1 with the reason where nobody answers."""
    socket, file = sys.argv[1:]
    for left in reversed(range(TRIES)):
        try:
            write_whole(Path(file), f"{ask(socket)}\n".encode())
        except grpc.RpcError as failed:
            error = cast("grpc.Call", failed)  # each that a call raises is one
            why = str(error.details())
        else:
            return 0
        if left:
            time.sleep(1)
    sys.stderr.write(f"the container runtime does not answer on {socket}: {why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
