"""Runs an agent by options in JSON: `python -m agent OPTIONS`.

`fraction-injector agent` replaces itself by this process, which does not load the command line's libraries.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import msgspec

from agent.dra.serving import DraOffer
from agent.gpu import GpuSourceError
from agent.kubernetes.api_server import ApiServerClient
from agent.kubernetes.node_writer import NodeWriter
from agent.kubernetes.other_drivers import OtherDrivers
from agent.kubernetes.resource_slices import ResourceSlices
from agent.kubernetes.unlimited_events import UnlimitedEvents
from agent.options import AgentOptions
from agent.parts import Agent
from agent.plugins import DevicePlugins
from agent.policy import PolicyUnusableError
from agent.preparation import Preparation
from agent.process import Extensions, MakeOffering, run_agent
from service.log import configure_logging

UNUSABLE = 2


def main() -> int:
    """Run the agent; return 2 with a message if it cannot start."""
    options = msgspec.json.decode(sys.argv[1], type=AgentOptions)
    configure_logging(options.log_level, options.log_format)
    try:
        again = asyncio.run(run_agent(options, *_in_cluster(options)))
    except (PolicyUnusableError, GpuSourceError, OSError) as error:
        sys.stderr.write(f"fraction-injector: {error}\n")
        return UNUSABLE
    if again:
        os.execv(sys.executable, [sys.executable, "-m", "agent", sys.argv[1]])  # noqa: S606 our own command
    return 0


def _in_cluster(options: AgentOptions) -> tuple[Extensions, MakeOffering]:
    """Return what runs next to what offers the GPUs, and that, by the API server if the options name a node.

    Raises:
        OSError: the options name a node, and this process is not in a pod, which knows the API server.
    """
    node = options.node
    if node is None:
        return {}, DevicePlugins
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise OSError("--node works only in a pod, which knows the API server: leave the option out")
    api = ApiServerClient(host, int(port))

    def device_plugins(agent: Agent, preparation: Preparation) -> DevicePlugins:
        return DevicePlugins(agent, preparation, OtherDrivers(ResourceSlices(api, node), agent).look)

    extensions = {
        "node facts": lambda agent: NodeWriter(api, node, agent).run,
        "unlimited programs": lambda agent: UnlimitedEvents(api, agent).run,
    }
    return extensions, partial(DraOffer, api=api) if options.offer == "dra" else device_plugins


if __name__ == "__main__":
    sys.exit(main())
