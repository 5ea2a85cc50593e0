"""Writes Events on nodes with wrong annotations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cluster.event_writer import EventWriter
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube import cordon
from kube.events import event, event_name
from service.log import get_logger

REASON = "BadCordon"
SECONDS_BETWEEN_CHECKS = 10.0
MAX_WRITTEN = 10_000


class NodeEvents:
    """Checks all nodes from time to time, and writes one Event for each problem."""

    def __init__(self, events: EventWriter, state: LedgerStore, leadership: Leadership) -> None:
        self._events = events
        self._state = state
        self._leadership = leadership
        self._written: dict[str, None] = {}
        self._log = get_logger("events")

    async def run(self) -> None:
        """Check the nodes' annotations while this replica leads."""
        await while_leading(self._leadership, self.check_nodes, SECONDS_BETWEEN_CHECKS)

    async def check_nodes(self) -> None:
        """Check the annotations of every node once."""
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            for node in filter(None, map(self._state.nodes.get, names)):
                indices = [index for index, _ in node.fact.gpus]
                wrong = cordon.problem(node.cordon, indices) if node.cordon else None
                if wrong is not None:
                    self._write_event(node, wrong)

    def _write_event(self, node: SeenNode, message: str) -> None:
        body = node_event(node, message, datetime.now(UTC))
        name = body["metadata"]["name"]
        if name in self._written:
            return
        self._log.warning("something is wrong with a node", node=node.fact.name, reason=REASON, error=message)
        self._events.write(body)
        self._written[name] = None
        if len(self._written) > MAX_WRITTEN:
            del self._written[next(iter(self._written))]


def node_event(node: SeenNode, message: str, now: datetime) -> dict[str, Any]:
    """Return the Event on a node; its name follows from node and message."""
    name = event_name(node.fact.name, f"{node.uid} {message}")
    involved = {"kind": "Node", "name": node.fact.name, "uid": node.uid}
    return event(involved, REASON, message, name=name, now=now)
