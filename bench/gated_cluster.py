"""Run with `python -m bench.gated_cluster WAITING`: an API server whose pods wait for a quota of ten.

Ten pods run. Several times a second, one of them ends and another one begins to wait. A pod whose gate is
removed runs at once; `GET /bench/gone` says how many did. Prints its port once it serves.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque

import uvloop

from bench.large_cluster import LargeCluster, reply, serve_until_killed
from kube.names import QUOTA_GATE

ROOM, NODES = 10, 20
ENDS_PER_SECOND = 4
_SPEC = json.dumps({"schedulingGates": [{"name": QUOTA_GATE}]}).strip("{}")
_METADATA = json.dumps({"creationTimestamp": "2026-01-01T00:00:00Z"}).strip("{}")


class GatedCluster(LargeCluster):
    """Pods by number: the first ones run, the others wait."""

    def __init__(self, waiting: int) -> None:
        super().__init__(NODES, ROOM, waiting)
        self._running = deque(range(ROOM))
        self._next = ROOM + waiting
        self._gone = 0

    async def change(self) -> None:
        """End a pod and add one, again and again."""
        while True:
            await asyncio.sleep(1 / ENDS_PER_SECOND)
            if not (self._watches and self._running):
                continue
            self._report("DELETED", self._as_running(self._running.popleft()))
            self._report("ADDED", self._object("pods", self._next))
            self._next += 1

    async def _answer(self, method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if target == "/bench/gone":
            reply(writer, str(self._gone).encode())
            return
        await super()._answer(method, target, body, writer)
        if method == "PATCH" and "/pods/" in target:
            number = int(target.partition("?")[0].rpartition("-")[2], 16)
            self._gone += 1
            self._running.append(number)
            self._report("MODIFIED", self._as_running(number))

    def _object(self, resource: str, number: int) -> str:
        text = super()._object(resource, number)
        if resource == "nodes" or number < self._bound:
            return text
        text = text.replace('"metadata": {', f'"metadata": {{{_METADATA}, ', 1)
        return text.replace('"spec": {', f'"spec": {{{_SPEC}, ', 1)

    def _as_running(self, number: int) -> str:
        bound = super()._object("pods", number % ROOM)
        return bound.replace(f"{number % ROOM:032x}", f"{number:032x}")


if __name__ == "__main__":
    uvloop.run(serve_until_killed(GatedCluster(int(sys.argv[1]))))
