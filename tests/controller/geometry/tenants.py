"""A tenant who always asks for what the cards are not divided into, and one with a pod now and then."""

import asyncio
from dataclasses import dataclass, field

from tests.controller.geometry.cluster import MigCluster

TURN_S, DIVISION_S = 10.0, 180.0
OTHER_EVERY_S, OTHER_TASK_S = 3600.0, 600.0
SIZES = ("7g.40gb", "1g.5gb")
OLD = "2025-01-01T00:00:00Z"
"""When the first tenant's pods were created: they waited behind a scheduling gate until now."""


@dataclass
class Tenants:
    """Runs both on nodes of one card, and counts."""

    cluster: MigCluster
    pods: int = 110
    """Of the first tenant, all of one size; once they run on each node, as many of the other size come."""
    cordoned: int = 0
    """Turns of nodes in which no pod could come to them."""
    waits: list[float] = field(default_factory=list)
    """Seconds that pods of the other tenant waited."""
    _created: dict[str, float] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)
    _phase: int = -1
    _reached: set[str] = field(default_factory=set)
    """Nodes on which the first tenant's pods have run in this phase."""

    @classmethod
    def on(cls, nodes=4, **options):
        cluster = MigCluster(
            cards=(1,) * nodes,
            work_turns=round(DIVISION_S / TURN_S),
            delay_seconds=90.0,
            step_seconds=TURN_S,
            drain_seconds=2.0,
            **options,
        )
        cluster.seconds = TURN_S
        return cls(cluster)

    def run(self, hours):
        """Return the part of the time for which nodes were cordoned."""
        turns = round(hours * 3600 / TURN_S)
        asyncio.run(self._run(turns))
        return self.cordoned / (turns * len(self.cluster.nodes))

    async def _run(self, turns):
        for turn in range(turns):
            self._alternate()
            self._end_others()
            if turn % round(OTHER_EVERY_S / TURN_S) == round(600 / TURN_S):
                self.cluster.add_pod(f"other-{turn}", "3g.20gb", namespace="other")
                self._created[f"other-{turn}"] = self.cluster.now
            await self.cluster.turn()
            nodes = self.cluster.nodes.values()
            self.cordoned += sum(bool(node["spec"].get("unschedulable")) for node in nodes)

    def _alternate(self):
        pods = self.cluster.pods
        mine = {name: pod for name, pod in pods.items() if pod["metadata"]["namespace"] == "alternating"}
        self._reached |= {pod["spec"]["nodeName"] for pod in mine.values() if "nodeName" in pod["spec"]}
        others = {pod["spec"].get("nodeName") for name, pod in pods.items() if name not in mine}
        if mine and self._reached | others < set(self.cluster.nodes):
            return
        for name in mine:
            del pods[name]
        self._phase += 1
        self._reached.clear()
        for number in range(self.pods):
            name = f"a-{self._phase}-{number}"
            self.cluster.add_pod(name, SIZES[self._phase % len(SIZES)], namespace="alternating")
            pods[name]["metadata"]["creationTimestamp"] = OLD

    def _end_others(self):
        for name, pod in list(self.cluster.pods.items()):
            if pod["metadata"]["namespace"] != "other" or "nodeName" not in pod["spec"]:
                continue
            if name not in self._started:
                self._started[name] = self.cluster.now
                self.waits.append(self.cluster.now - self._created[name])
            if self.cluster.now - self._started[name] >= OTHER_TASK_S:
                del self.cluster.pods[name]

    @property
    def still_waiting(self):
        """Seconds for which pods of the other tenant have waited that never ran."""
        waiting = (pod["metadata"]["name"] for pod in self.cluster.waiting())
        return [self.cluster.now - self._created[name] for name in waiting if name in self._created]
