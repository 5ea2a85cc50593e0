"""Tells what is wrong with a node's annotations as Kubernetes Events on the node."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from controller.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.leadership import Leadership
from controller.ledger_store import State
from controller.resources import SeenNode
from ledger import cordon
from service.log import get_logger

COMPONENT = "fraction-injector"
NAMESPACE = "default"
"""Where Events of objects without a namespace belong."""
REASON = "BadCordon"
SECONDS_BETWEEN_LOOKS = 10.0
MAX_TOLD = 10_000


class NodeEvents:
    """Looks at all nodes from time to time, and tells each mistake once."""

    def __init__(self, api: ApiServer, state: State, leadership: Leadership) -> None:
        self._api = api
        self._state = state
        self._leadership = leadership
        self._told: dict[str, None] = {}
        self._log = get_logger("events")

    async def run(self) -> None:
        """Tell what is found, until cancelled."""
        while self._leadership.leads:
            await self.look()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async def look(self) -> None:
        """Look at every node once."""
        async for names in self._state.turns.slices(list(self._state.nodes)):
            for name in names:
                node = self._state.nodes.get(name)
                wrong = _problem(node) if node is not None and node.cordon else None
                if node is not None and wrong is not None:
                    await self._tell(node, wrong)

    async def _tell(self, node: SeenNode, message: str) -> None:
        body = event(node, message, datetime.now(UTC))
        name = body["metadata"]["name"]
        if name in self._told:
            return
        self._log.warning("a node's annotation is wrong", node=node.fact.name, error=message)
        try:
            await self._api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/events", body=body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                self._log.warning("an Event is lost", reason=REASON, error=str(error))
        except TRANSPORT_ERRORS as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
        self._told[name] = None
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]


def event(node: SeenNode, message: str, now: datetime) -> dict[str, Any]:
    """Make the Event as the core/v1 API takes it; its name follows from node and message."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(f"{node.uid} {message}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node.fact.name[:200]}.{digest}", "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.fact.name, "uid": node.uid},
        "type": "Warning",
        "reason": REASON,
        "message": message,
        "source": {"component": COMPONENT},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def _problem(node: SeenNode) -> str | None:
    return cordon.problem(node.cordon, [index for index, _ in node.fact.gpus])
