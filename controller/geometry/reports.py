"""What the geometry loop tells people, as Events on nodes and pods: each once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Literal

from controller.event_writer import EventWriter
from controller.geometry.cluster import ClusterNode
from controller.geometry.mig_config import Division
from controller.geometry.model import MigRequest
from controller.kube_client import ApiServer
from kube.events import event, event_name

MAX_WRITTEN = 10_000
"""Events whose names are kept, so that they are not sent again in each step."""


class Reports:
    """Writes Events."""

    def __init__(self, api: ApiServer) -> None:
        self._events = EventWriter(api)
        self._written: dict[str, None] = {}

    async def never_fits(self, uid: str, request: MigRequest, problem: str) -> None:
        """Say on a pod why it can never run."""
        namespace, name = request.key
        involved = {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
        await self._write(involved, "MigNeverFits", problem)

    async def not_divided(self, node: ClusterNode, problem: str) -> None:
        """Say on a node why it is not divided."""
        await self._write(_involved(node), "MigNotDivided", f"this node is not divided on demand: {problem}")

    async def failed(self, node: ClusterNode, target: str, why: str) -> None:
        """Say on a node that a change failed."""
        await self._write(_involved(node), "MigChangeFailed", f"{why}; configuration {target} is tried again")

    async def divided(self, node: ClusterNode, division: Division) -> None:
        """Say on a node how it is divided now."""
        counts = Counter(name for names in division for name in names)
        text = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
        now = f"divided into {text or 'nothing'}, configuration {node.fact.config}"
        await self._write(_involved(node), "MigDivided", now, kind="Normal")

    async def _write(
        self,
        involved: dict[str, str],
        reason: str,
        message: str,
        kind: Literal["Normal", "Warning"] = "Warning",
    ) -> None:
        now = datetime.now(UTC)
        # An API server keeps Events for an hour: what is still so is said again in each.
        name = event_name(involved["name"], f"{involved['uid']} {reason} {message} {now:%Y-%m-%dT%H}")
        if name in self._written:
            return
        await self._events.write(event(involved, reason, message, name=name, now=now, kind=kind))
        self._written[name] = None
        if len(self._written) > MAX_WRITTEN:
            del self._written[next(iter(self._written))]


def _involved(node: ClusterNode) -> dict[str, str]:
    return {"kind": "Node", "name": node.name, "uid": node.uid}
