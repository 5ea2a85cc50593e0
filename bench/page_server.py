"""Run with `python -m bench.page_server NODES PODS_PER_SECOND`: a page over a ledger with churn.

Half of all slices are held by pods. So many of them a second end, and as many begin elsewhere; one a second
carries the moment of its creation in its name (`probe-<milliseconds>`). Prints its port once it serves.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

import uvloop

from bench.ledger import node_object
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode, SeenPod
from ledger.from_kubernetes import node_from_object
from modes.facts import PodFact
from modes.resource_names import ResourceNames
from service.http.serving import Listener, serve
from service.http.sockets import bind
from web.page import Page
from web.source import About

GPUS, SLICES = 8, 4
TEAMS = 20
QUEUES = ("half", "nightly", "interactive", "")


class Churn:
    """A ledger, and pods that come and go in it."""

    def __init__(self, nodes: int) -> None:
        self.store = LedgerStore(time.monotonic)
        self._random = random.Random(1)  # noqa: S311 - a bench repeats
        self._nodes = [f"gpu-{number:05}" for number in range(nodes)]
        self._held: list[tuple[str, str]] = []
        self._number = 0
        for number in range(nodes):
            fact = node_from_object(node_object(number), ResourceNames())
            self.store.set_node(SeenNode(fact, f"{number}"))
        for resource in ("nodes", "pods"):
            self.store.listed(resource)
        for _ in range(nodes * GPUS):
            self._begin(f"pod-{self._number}")

    async def run(self, pods_per_second: float) -> None:
        """Let pods come and go until cancelled."""
        probed = 0.0
        while True:
            await asyncio.sleep(1 / pods_per_second)
            gone = self._random.randrange(len(self._held))
            self._held[gone], self._held[-1] = self._held[-1], self._held[gone]
            self.store.remove_pod(self._held.pop())
            is_probe = time.monotonic() - probed > 1
            self._begin(f"probe-{time.time() * 1000:.0f}" if is_probe else f"pod-{self._number}")
            probed = time.monotonic() if is_probe else probed

    def _begin(self, name: str) -> None:
        self._number += 1
        fact = PodFact(
            namespace=f"team-{self._random.randrange(TEAMS)}",
            name=name,
            node=self._random.choice(self._nodes),
            takes=((self._random.randrange(GPUS), SLICES),),
            queues=tuple(filter(None, [self._random.choice(QUEUES)])),
        )
        self.store.set_pod(SeenPod(fact, None, "2026-01-01T00:00:00Z"))
        self._held.append(fact.key)


async def main(nodes: int, pods_per_second: float) -> None:
    """Serve until SIGTERM."""
    churn = Churn(nodes)
    page = Page(churn.store, About(role=lambda: "bench"))
    socket = bind("127.0.0.1", 0)
    await serve(
        [Listener(page, socket)],
        background=[churn.run(pods_per_second)],
        on_started=lambda: print(socket.getsockname()[1], flush=True),
        on_stopping=page.stop,
        stop_delay_seconds=0,
    )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), float(sys.argv[2])))
