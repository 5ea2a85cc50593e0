"""Nodes, pods and requests as the geometry loop sees them in one step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.geometry.model import Division, MigRequest
from controller.geometry.node_view import view
from controller.watch.ledger_store import LedgerStore
from controller.watch.mig_facts import MigNodeFact
from controller.watch.resources import SeenPod
from modes.facts import NodeFact
from modes.mig_profiles import MigCard


@dataclass(slots=True)
class NodeUse:
    """What the pods on a node hold."""

    instances: Counter[str] = field(default_factory=Counter)
    cpu_milli: int = 0
    memory_bytes: int = 0
    has_gpus: bool = False
    """Whether a pod on the node holds a GPU or an instance."""

    def add(self, pod: SeenPod) -> None:
        """Count a pod."""
        self.cpu_milli += pod.fact.cpu_milli
        self.memory_bytes += pod.fact.memory_bytes
        self.has_gpus = self.has_gpus or pod.mig is not None or bool(pod.fact.slices)
        if pod.mig is not None:
            self.instances.update(dict(pod.mig.wants))


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that is divided on demand or has instances."""

    node: NodeFact
    uid: str
    fact: MigNodeFact
    use: NodeUse
    card: MigCard | None
    division: Division | None
    """How it is divided; None if unknown, so that no card can be divided."""
    problem: str | None
    """Why the division is unknown, for the admin; None if nothing needs to be done."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


@dataclass(slots=True)
class Cluster:
    """The nodes, and the pods that the scheduler found no node for, by UID."""

    nodes: list[ClusterNode]
    waiting: dict[str, MigRequest]

    @classmethod
    async def of(cls, state: LedgerStore, configs: Mapping[str, Division]) -> Cluster:
        """Read the cluster from the ledger's store, in parts, so that the event loop is not blocked."""
        seen = {name: node.mig for name, node in state.nodes.items() if node.mig is not None}
        use: defaultdict[str, NodeUse] = defaultdict(NodeUse)
        waiting = dict[str, MigRequest]()
        async for keys in state.yielding.batches(list(state.pods)):
            for pod in filter(None, map(state.pods.get, keys)):
                if pod.fact.is_over:
                    continue
                if pod.fact.node in seen:
                    use[pod.fact.node].add(pod)
                elif pod.mig is not None and pod.mig.waits and pod.mig.constraints is not None:
                    waiting[pod.mig.uid] = MigRequest(pod.fact, pod.mig)
        nodes = [
            ClusterNode(
                node.fact,
                node.uid,
                node.mig,
                use[name],
                *view(node.mig, node.fact, configs, is_empty=not use[name].has_gpus),
            )
            for name, node in state.nodes.items()
            if node.mig is not None
        ]
        return cls(nodes, waiting)
