"""The leader's loop that compares the kubelets' allocations with the ledger, and only reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice

from cluster.event_writer import EventWriter
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.node_agents.audit import Difference, Held, Looks, differences
from controller.node_agents.metrics import NodeAgentMetrics
from controller.watch.agent_readiness import why_not_ready
from controller.watch.ledger_store import LedgerStore
from kube.events import event, event_name
from modes.units import index_of
from service.log import get_logger

REASON = "AuditDifference"
SECONDS_BETWEEN_LOOKS = 20.0
"""More than an agent takes to read the kubelet's checkpoint again, 15 s, and to write changes, 2 s."""
MAX_EVENTS = 100
"""Events of one check: if all nodes differ, more of them add nothing."""


class AuditLoop:
    """Checks all nodes whose agents report the kubelet's allocations."""

    def __init__(
        self, events: EventWriter, state: LedgerStore, leadership: Leadership, metrics: NodeAgentMetrics
    ) -> None:
        self._events = events
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._looks = Looks()
        self._log = get_logger("audit")

    async def run(self) -> None:
        """Check while this replica leads."""
        try:
            await while_leading(self._leadership, self.look, SECONDS_BETWEEN_LOOKS)
        finally:
            self._metrics.differences.set(0)

    async def look(self) -> None:
        """Compare the kubelet's slices with the ledger's once, on all nodes."""
        held: dict[str, Held] = {}
        suspects = set[str]()
        async for names in self._state.yielding.batches(list(self._state.agents)):
            for name in names:
                held[name] = known = self._held(name) or ()
                if known and self._differences(name, known, {}):
                    suspects.add(name)
        finished = await self._finished(suspects)
        found = [each for name in suspects for each in self._differences(name, held[name], finished[name])]
        lasting = self._looks.lasting(found)
        self._metrics.differences.set(len(lasting))
        self._tell(lasting)

    def _held(self, name: str) -> Held | None:
        """The kubelet's allocations, if the node's agent serves; otherwise they may be outdated."""
        node, report = self._state.nodes.get(name), self._state.agents.get(name)
        if node is None or report is None or why_not_ready(report, node) is not None:
            return None
        return report.held

    def _differences(self, name: str, held: Held, finished: Mapping[int | None, int]) -> list[Difference]:
        view = self._state.ledger.node(name)
        return differences(view, held, finished) if view is not None else []

    async def _finished(self, nodes: Collection[str]) -> Mapping[str, Counter[int | None]]:
        """Slices of ended pods that still exist on these nodes, by GPU."""
        found: defaultdict[str, Counter[int | None]] = defaultdict(Counter)
        if nodes:
            async for keys in self._state.yielding.batches(list(self._state.pods)):
                for pod in filter(None, map(self._state.pods.get, keys)):
                    name = pod.fact.node
                    if name is not None and pod.fact.is_over and name in nodes:
                        found[name].update({index_of(unit): amount for unit, amount in pod.fact.takes})
        return found

    def _tell(self, lasting: Iterable[Difference]) -> None:
        now = datetime.now(UTC)
        for each in islice(lasting, MAX_EVENTS):
            node = self._state.nodes.get(each.node)
            if node is None or not self._leadership.leads:
                continue
            # An API server keeps Events for an hour, so lasting differences are reported again every hour.
            by = each.kubelet - each.ledger
            name = event_name(each.node, f"{node.uid} {REASON} {each.index} {by} {now:%Y-%m-%dT%H}")
            involved = {"kind": "Node", "name": each.node, "uid": node.uid}
            if self._events.write(event(involved, REASON, each.text, name=name, now=now)):
                self._log.warning("kubelet and ledger differ", node=each.node, what=each.text)
