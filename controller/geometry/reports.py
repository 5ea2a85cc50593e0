"""Events of the geometry loop on nodes and pods, each written once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from cluster.event_writer import EventWriter
from controller.geometry.cluster import Cluster, ClusterNode
from controller.geometry.model import Division, Plan
from kube.events import MIG_WAITS, event, event_name

MAX_NAMED = 100
"""Pods that one step writes Events on."""


class Reports:
    """Writes Events about the division of cards."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events

    def waiting(self, cluster: Cluster, plan: Plan) -> None:
        """Write on pods why no card is divided for them now."""
        for uid, why in islice(plan.unserved.items(), MAX_NAMED):
            namespace, name = cluster.waiting[uid].pod.key
            self._write({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid}, MIG_WAITS, why)

    def not_divided(self, node: ClusterNode, problem: str) -> None:
        """Write on a node why it is not divided."""
        self._write(_involved(node), "MigNotDivided", f"this node is not divided on demand: {problem}")

    def failed(self, node: ClusterNode, target: str, why: str) -> None:
        """Write on a node that a change failed."""
        self._write(_involved(node), "MigChangeFailed", f"{why}; configuration {target} is tried again")

    def divided(self, node: ClusterNode, division: Division, not_before: str) -> None:
        """Write on a node how it is divided now, and until when."""
        counts = Counter(name for names in division for name in names)
        text = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
        now = f"divided into {text or 'nothing'}, configuration {node.fact.config}"
        self._write(
            _involved(node), "MigDivided", f"{now}; not divided again before {not_before}", kind="Normal"
        )

    def _write(
        self,
        involved: dict[str, str],
        reason: str,
        message: str,
        kind: Literal["Normal", "Warning"] = "Warning",
    ) -> None:
        # An API server keeps Events for an hour: what is still true is written again every hour.
        now = datetime.now(UTC)
        name = event_name(involved["name"], f"{involved['uid']} {reason} {message} {now:%Y-%m-%dT%H}")
        self._events.write(event(involved, reason, message, name=name, now=now, kind=kind))


def _involved(node: ClusterNode) -> dict[str, str]:
    return {"kind": "Node", "name": node.name, "uid": node.uid}
