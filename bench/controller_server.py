"""Run with `python -m bench.controller_server TLS_DIR`: the controller's API on a ledger without a cluster.

No API server, no election: what a webhook's asks cost is measured, and nothing else. Prints the port once it
serves.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import cast

from certs.live_context import LiveTlsContext
from certs.mounted import read_tls_files
from cluster.leadership import Leadership
from controller.placement_api import ControllerApi
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from ledger.from_kubernetes import node_from_object
from modes.resource_names import ResourceNames
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.metrics import new_registry
from testbed.gpu_nodes import GpuNode

NODES = 1000


class Leading:
    """Leads, always."""

    leads = True
    leader = None
    transition = 0


def main(tls: Path) -> None:
    """Serve until SIGTERM."""
    files = read_tls_files(tls)
    context = LiveTlsContext(verify_clients=True)
    context.swap(files.pair, files.ca_pem)
    # Of the election the API asks no more than this.
    api = ControllerApi(_state(), cast(Leadership, Leading()), ControllerMetrics(new_registry()))
    listener = Listener(api.app(), bind("127.0.0.1", 0), context.listener, clients=frozenset({"localhost"}))
    port = listener.socket.getsockname()[1]
    run(
        serve(
            [listener],
            on_started=lambda: print(port, flush=True),
            on_stopping=api.stop_streams,
            stop_delay_seconds=0,
        )
    )


def _state() -> LedgerStore:
    state, names = LedgerStore(time.monotonic), ResourceNames()
    manifests = (GpuNode(gpus=8).manifest(f"node-{number}") for number in range(NODES))
    for found in manifests:
        state.set_node(SeenNode(node_from_object(found, names), ""))
    state.listed("nodes")
    state.listed("pods")
    return state


if __name__ == "__main__":
    main(Path(sys.argv[1]))
