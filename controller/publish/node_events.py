"""Writes Events on nodes with wrong annotations."""

from __future__ import annotations

from datetime import UTC, datetime

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


class NodeEvents:
    """Checks all nodes from time to time, and writes one Event for each problem."""

    def __init__(self, events: EventWriter, state: LedgerStore, leadership: Leadership) -> None:
        self._events = events
        self._state = state
        self._leadership = leadership
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
        involved = {"kind": "Node", "name": node.fact.name, "uid": node.uid}
        name = event_name(node.fact.name, f"{node.uid} {message}")
        if self._events.write(event(involved, REASON, message, name=name, now=datetime.now(UTC))):
            self._log.warning(
                "something is wrong with a node", node=node.fact.name, reason=REASON, error=message
            )
