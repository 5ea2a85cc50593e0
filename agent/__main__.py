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
    from agent.kubernetes.api_server import ApiServerClient
    from agent.process import Extension, MakeOffering

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
        api = _api_server(options)
        extensions = _extensions(api, options.node)
        offering = _offering(api, options)
        gc.freeze()
        gc.enable()
        again = asyncio.run(run_agent(options, begun, extensions, offering))
    except (PolicyUnusableError, GpuSourceError, OSError) as error:
        sys.stderr.write(f"fraction-injector: {error}\n")
        return UNUSABLE
    if again:
        os.execv(sys.executable, [sys.executable, "-m", "agent", sys.argv[1]])  # noqa: S606 our own command
    return 0


def _api_server(options: AgentOptions) -> ApiServerClient | None:
    """Return the client of the API server; None for an agent that needs none.

    Raises:
        OSError: the options name a node, and this process is not in a pod, which knows the API server.
    """
    if options.node is None:
        return None
    from agent.kubernetes.api_server import ApiServerClient  # noqa: PLC0415 most agents in tests need none

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise OSError("--node works only in a pod, which knows the API server: leave the option out")
    return ApiServerClient(host, int(port))


def _extensions(api: ApiServerClient | None, node: str | None) -> list[Extension]:
    """Return what runs next to the device plugins."""
    if api is None or node is None:
        return []
    from agent.kubernetes.node_writer import node_facts  # noqa: PLC0415
    from agent.kubernetes.unlimited_events import unlimited_events  # noqa: PLC0415

    return [node_facts(api, node), unlimited_events(api)]


def _offering(api: ApiServerClient | None, options: AgentOptions) -> MakeOffering:
    """Return what offers the GPUs."""
    if api is None or options.node is None:
        from agent.process import device_plugins  # noqa: PLC0415 as in `main`

        return device_plugins
    if options.offer == "device-plugin":
        from agent.kubernetes.other_drivers import offer_by_device_plugins  # noqa: PLC0415 as in `main`

        return offer_by_device_plugins(api, options.node)
    from agent.dra.serving import offer_by_dra  # noqa: PLC0415 other agents need none

    return offer_by_dra(api)


if __name__ == "__main__":
    sys.exit(main())
