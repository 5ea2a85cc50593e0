"""Runs an agent by options in JSON: `python -m agent OPTIONS`.

`fraction-injector agent` replaces itself by this process, which does not load the command line's libraries.
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
    """Run the agent; return 2 with a message if it cannot start."""
    options = msgspec.json.decode(sys.argv[1], type=AgentOptions)
    configure_logging(options.log_level, options.log_format)
    begun = begin(options)
    # Nothing that is loaded here is freed, and garbage collection would take a tenth of the start.
    gc.disable()
    # Here and not above: gRPC is loaded while other processes read.
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
    """Return what runs next to the device plugins.

    Raises:
        OSError: the options name a node, and this process is not in a pod, which knows the API server.
    """
    if options.node is None:
        return []
    from agent.kubernetes.api_server import ApiServerClient  # noqa: PLC0415 most agents in tests need none
    from agent.kubernetes.node_writer import node_facts  # noqa: PLC0415
    from agent.kubernetes.unlimited_events import unlimited_events  # noqa: PLC0415

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise OSError("--node works only in a pod, which knows the API server: leave the option out")
    api = ApiServerClient(host, int(port))
    return [node_facts(api, options.node), unlimited_events(api)]


if __name__ == "__main__":
    sys.exit(main())
