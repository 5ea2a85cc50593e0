"""fraction-injector agent: the device plugin of a node."""

from __future__ import annotations

import os
import sys

import msgspec

from agent.options import AgentOptions
from cli.process_command import process_command
from service.options import PACKAGES


@process_command
def agent(options: AgentOptions) -> None:
    """Offer the GPUs of this node to the kubelet in slices, and set each container's limit on the node.

    Needs the kubelet's folder and the driver. Stops on SIGTERM or Ctrl-C.
    """
    path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    # Each of gRPC's many threads would get its own arena.
    environment = {"MALLOC_ARENA_MAX": "2", **os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "agent", msgspec.json.encode(options).decode()]
    os.execve(sys.executable, command, environment)  # noqa: S606 the command line's libraries leave the memory
