"""Runs an agent by options in JSON: `python -m agent OPTIONS`.

`fraction-injector agent` replaces itself by this process, which does not load the command line's libraries.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from agent.gpu import GpuSourceError
from agent.kubernetes.api_server import ApiServerClient
from agent.options import AgentOptions
from agent.policy import PolicyUnusableError
from agent.process import run_agent
from service.log import configure_logging

UNUSABLE = 2


def main() -> int:
    """Run the agent; return 2 with a message if it cannot start."""
    options = msgspec.json.decode(sys.argv[1], type=AgentOptions)
    configure_logging(options.log_level, options.log_format)
    try:
        again = asyncio.run(run_agent(options, _api_server() if options.node is not None else None))
    except (PolicyUnusableError, GpuSourceError, OSError) as error:
        sys.stderr.write(f"fraction-injector: {error}\n")
        return UNUSABLE
    if again:
        os.execv(sys.executable, [sys.executable, "-m", "agent", sys.argv[1]])  # noqa: S606 our own command
    return 0


def _api_server() -> ApiServerClient:
    """Return the API server of the pod in which this process runs.

    Raises:
        OSError: it runs in no pod.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise OSError("--node works only in a pod, which knows the API server: leave the option out")
    return ApiServerClient(host, int(port))


if __name__ == "__main__":
    sys.exit(main())
