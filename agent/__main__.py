"""Runs an agent by options in JSON: `python -m agent OPTIONS`.

`fraction-injector agent` replaces itself by this, so that the command line's libraries leave the memory.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING

import msgspec

from agent.options import AgentOptions
from agent.parallel_start import begin
from agent.policy import PolicyUnusableError
from service.log import configure_logging

if TYPE_CHECKING:
    from agent.process import Extension

UNUSABLE = 2


def main() -> int:
    """Run the agent; return 2 with a message where it cannot start."""
    options = msgspec.json.decode(sys.argv[1], type=AgentOptions)
    configure_logging(options.log_level, options.log_format)
    begun = begin(options)
    # What is loaded here stays: to look for garbage in between takes a tenth of the start.
    gc.disable()
    # Here and not above: while others read, gRPC is loaded.
    from agent.gpu import GpuSourceError  # noqa: PLC0415
    from agent.process import run_agent  # noqa: PLC0415

    try:
        extensions = _extensions(options)
        gc.freeze()
        gc.enable()
        again = asyncio.run(run_agent(options, begun, extensions))
    except (PolicyUnusableError, GpuSourceError, OSError) as error:
        sys.stderr.write(f"fraction-injector: {error}\n")
        return UNUSABLE
    if again:
        os.execv(sys.executable, [sys.executable, "-m", "agent", sys.argv[1]])  # noqa: S606 our own command
    return 0


def _extensions(options: AgentOptions) -> list[Extension]:
    """What runs beside the device plugins.

    Raises:
        OSError: the options name a node, and this is no pod that could tell the API server of it.
    """
    if options.node is None:
        return []
    from agent.kubernetes.api_server import ApiServerClient  # noqa: PLC0415 most agents of tests need none
    from agent.kubernetes.node_writer import node_facts  # noqa: PLC0415
    from agent.kubernetes.unlimited_events import unlimited_events  # noqa: PLC0415

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise OSError("--node: no pod tells where the API server is: leave the option out")
    api = ApiServerClient(host, int(port))
    return [node_facts(api, options.node), unlimited_events(api)]


if __name__ == "__main__":
    sys.exit(main())
