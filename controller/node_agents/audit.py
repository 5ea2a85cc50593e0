"""The leader's loop that compares the kubelets' allocations with the ledger, and only reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice

import msgspec

from cluster.event_writer import EventWriter
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.publish.metrics import ControllerMetrics
from controller.watch.agent_readiness import why_not_ready
from controller.watch.ledger_store import LedgerStore
from kube.events import event, event_name
from ledger.view import NodeView
from modes.units import index_of
from service.log import get_logger

REASON = "AuditDifference"
SECONDS_BETWEEN_LOOKS = 20.0
"""More than an agent takes to read the kubelet's checkpoint again, 15 s, and to write changes, 2 s."""
LOOKS = 3
"""Number of equal checks in a row after which a difference is not just a delay."""
MAX_EVENTS = 100
"""Events of one check: if all nodes differ, more of them add nothing."""
Held = tuple[tuple[int, int], ...]
"""Index of each GPU, and the slices that containers hold by the kubelet."""


class Difference(msgspec.Struct, frozen=True):
    """One GPU, or the pool of a node, for which kubelet and ledger differ."""

    node: str
    index: int | None
    """None for the pool."""
    by: int
    """Slices that the kubelet counts more than the ledger."""


def differences(view: NodeView, held: Held, finished: Mapping[int | None, int]) -> Iterator[Difference]:
    """Yield the differences of a node's GPUs; GPUs without slices are skipped, as their plugin is away.

    `held` is what the kubelet counts. Some kubelets still list pods that have `finished` but still exist.
    """
    by_index: dict[int | None, int] = {**dict(held), None: sum(slices for _, slices in held)}
    for gpu in view.gpus:
        by = by_index.get(gpu.index, gpu.held) - gpu.held
        if gpu.capacity and not 0 <= by <= finished.get(gpu.index, 0):
            yield Difference(view.name, gpu.index, by)


class Audit:
    """Checks all nodes whose agents report the kubelet's allocations."""

    def __init__(
        self, events: EventWriter, state: LedgerStore, leadership: Leadership, metrics: ControllerMetrics
    ) -> None:
        self._events = events
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._looks: dict[Difference, int] = {}
        """For how many checks each difference has been the same."""
        self._log = get_logger("audit")

    async def run(self) -> None:
        """Check while this replica leads."""
        try:
            await while_leading(self._leadership, self.look, SECONDS_BETWEEN_LOOKS)
        finally:
            self._metrics.audit_differences.set(0)

    async def look(self) -> None:
        """Compare the kubelet's slices with the ledger's once, on all nodes."""
        finished, found = await self._finished(), dict[Difference, int]()
        async for names in self._state.yielding.batches(list(self._state.agents)):
            for name in names:
                view, held = self._state.ledger.node(name), self._held(name)
                for each in differences(view, held, finished[name]) if view is not None and held else ():
                    found[each] = self._looks.get(each, 0) + 1
        self._looks = found
        lasting = [each for each, looks in found.items() if looks >= LOOKS]
        self._metrics.audit_differences.set(len(lasting))
        for each in islice(lasting, MAX_EVENTS):
            self._tell(each)

    def _held(self, name: str) -> Held | None:
        """The kubelet's allocations, if the node's agent serves; otherwise they may be outdated."""
        node, report = self._state.nodes.get(name), self._state.agents.get(name)
        if node is None or report is None or why_not_ready(report, node) is not None:
            return None
        return report.held

    async def _finished(self) -> Mapping[str, Counter[int | None]]:
        """Slices of ended pods that still exist, by node and GPU."""
        found: defaultdict[str, Counter[int | None]] = defaultdict(Counter)
        async for keys in self._state.yielding.batches(list(self._state.pods)):
            for pod in filter(None, map(self._state.pods.get, keys)):
                if pod.fact.is_over and pod.fact.node is not None:
                    found[pod.fact.node].update({index_of(unit): amount for unit, amount in pod.fact.takes})
        return found

    def _tell(self, found: Difference) -> None:
        node = self._state.nodes.get(found.node)
        if node is None or not self._leadership.leads:
            return
        what = f"GPU {found.index}" if found.index is not None else "the pool"
        counts = f"{abs(found.by)} slices {'more' if found.by > 0 else 'less'} than the ledger"
        advice = f"compare kubectl get gpuledger {found.node} -o yaml with the pods on the node"
        # An API server keeps Events for an hour, so lasting differences are reported again every hour.
        now = datetime.now(UTC)
        name = event_name(found.node, f"{node.uid} {REASON} {found.index} {found.by} {now:%Y-%m-%dT%H}")
        involved = {"kind": "Node", "name": found.node, "uid": node.uid}
        text = f"{what}: the kubelet counts {counts}: {advice}"
        if self._events.write(event(involved, REASON, text, name=name, now=now)):
            self._log.warning("kubelet and ledger differ", node=found.node, what=text)
