"""Writes Events on nodes whose annotations are wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from controller.event_writer import EventWriter
from controller.kube_client import ApiServer
from controller.leader_loop import while_leading
from controller.leadership import Leadership
from controller.ledger_store import LedgerStore
from controller.resources import SeenNode
from kube.events import event, event_name
from ledger import cordon
from service.log import get_logger

REASON = "BadCordon"
SECONDS_BETWEEN_CHECKS = 10.0
MAX_WRITTEN = 10_000


class NodeEvents:
    """Checks all nodes from time to time, and writes one Event for each mistake."""

    def __init__(self, api: ApiServer, state: LedgerStore, leadership: Leadership) -> None:
        self._events = EventWriter(api)
        self._state = state
        self._leadership = leadership
        self._written: dict[str, None] = {}
        self._log = get_logger("events")

    async def run(self) -> None:
        """Check while this replica leads."""
        await while_leading(self._leadership, self.check_nodes, SECONDS_BETWEEN_CHECKS)

    async def check_nodes(self) -> None:
        """Check the annotations of every node once."""
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            for name in names:
                node = self._state.nodes.get(name)
                wrong = _problem(node) if node is not None and node.cordon else None
                if node is not None and wrong is not None:
                    await self._write_event(node, wrong)

    async def _write_event(self, node: SeenNode, message: str) -> None:
        body = cordon_event(node, message, datetime.now(UTC))
        name = body["metadata"]["name"]
        if name in self._written:
            return
        self._log.warning("a node's annotation is wrong", node=node.fact.name, error=message)
        await self._events.write(body)
        self._written[name] = None
        if len(self._written) > MAX_WRITTEN:
            del self._written[next(iter(self._written))]


def cordon_event(node: SeenNode, message: str, now: datetime) -> dict[str, Any]:
    """Return the Event on a node; its name follows from node and message."""
    name = event_name(node.fact.name, f"{node.uid} {message}")
    involved = {"kind": "Node", "name": node.fact.name, "uid": node.uid}
    return event(involved, REASON, message, name=name, now=now)


def _problem(node: SeenNode) -> str | None:
    return cordon.problem(node.cordon, [index for index, _ in node.fact.gpus])
