"""Events of the geometry loop on nodes and pods, each written once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from cluster.event_writer import EventWriter
from controller.geometry.cluster import Cluster, ClusterNode, is_advertised
from controller.geometry.demand import Decision
from controller.geometry.mig_config import Division
from controller.geometry.model import Unserved, UnservedReason
from controller.geometry.turns import FIRST_DEFERRAL_SECONDS, USE_SECONDS
from controller.watch.resources import SeenPod
from kube.events import MIG_NEVER_FITS, MIG_WAITS, event, event_name
from service.yielding import TimeSlice

MAX_WRITTEN = 10_000
"""Events that are remembered, so that not every step writes them."""
_UNUSED = (
    f"instances were free for it for {USE_SECONDS:.0f} s, and the scheduler has another reason not to bind "
    f"it: see its Events; nothing is divided for it for {FIRST_DEFERRAL_SECONDS / 60:.0f} minutes or more"
)


class Reports:
    """Writes Events about the division of cards."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._written: dict[tuple[str, ...], None] = {}

    async def waiting(self, cluster: Cluster, decision: Decision, pause_end: Callable[[str], str]) -> None:
        """Write on pods why they can never run, or why no card is divided for them now."""
        time_slice = TimeSlice()
        for uid in decision.deferred:
            if uid in cluster.waiting:
                self._on_pod(cluster.waiting[uid], MIG_WAITS, _UNUSED)
        for request in decision.selection.requests:
            found = decision.plan.unserved.get(request.key)
            text = _why_not(found, pause_end) if found is not None else None
            if text is not None and request.uid in cluster.waiting:
                self._on_pod(cluster.waiting[request.uid], MIG_WAITS, text)
        # Last, because there may be any number; the others are at most as many as one plan looks at.
        advertised = cluster.advertised
        for pod, problem in decision.selection.impossible:
            if pod.mig is not None and not is_advertised(pod.mig, advertised):
                self._on_pod(pod, MIG_NEVER_FITS, problem)
            await time_slice.pause()

    def _on_pod(self, pod: SeenPod, reason: str, message: str) -> None:
        namespace, name = pod.fact.key
        if pod.mig is not None:
            involved = {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod.mig.uid}
            self._write(involved, reason, message)

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
        """Write an Event, unless it was written before."""
        # An API server keeps Events for an hour: what is still true is written again every hour.
        now = datetime.now(UTC)
        identity = involved["uid"], reason, message, f"{now:%Y-%m-%dT%H}"
        if identity in self._written:
            return
        name = event_name(involved["name"], " ".join(identity))
        self._events.write(event(involved, reason, message, name=name, now=now, kind=kind))
        self._written[identity] = None
        if len(self._written) > MAX_WRITTEN:
            del self._written[next(iter(self._written))]


def _why_not(found: Unserved, pause_end: Callable[[str], str]) -> str | None:
    """Return why no card is divided for a pod; None if too many are in use: the scheduler reports that."""
    match found.reason:
        case UnservedReason.PAUSED if found.node is not None:
            name = found.node.name
            return f"node {name} can be divided for it after a pause, not before {pause_end(name)}"
        case UnservedReason.NOT_ITS_TURN:
            return (
                "other pods get what could be divided for it: older pods of its namespace, and pods of "
                "namespaces that were served less recently"
            )
        case UnservedReason.NO_ROOM:
            return (
                "no node that could be divided for it accepts pods and has enough free CPU and memory for it"
            )
        case _:
            return None


def _involved(node: ClusterNode) -> dict[str, str]:
    return {"kind": "Node", "name": node.name, "uid": node.uid}
