"""Nodes, pods and requests as the geometry loop sees them in one step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.geometry.feasibility import NodeOffer
from controller.geometry.mig_config import Division
from controller.geometry.node_view import NodeDivision, view
from controller.watch.ledger_store import LedgerStore
from controller.watch.mig_facts import MigNodeFact, MigPod
from controller.watch.resources import SeenNode, SeenPod
from modes.facts import NodeFact
from modes.mig_profiles import MIG_RESOURCE_PREFIX, MigCard


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
    view: NodeDivision
    use: NodeUse

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def is_usable(self) -> bool:
        """Ready and schedulable."""
        return self.node.usable

    @property
    def offer(self) -> NodeOffer | None:
        """What it could offer a pod once divided; None if its cards are unknown or others divide them."""
        card, node = self.view.card, self.node
        if card is None or not self.fact.is_ours:
            return None
        return NodeOffer(
            node.name, card, self.view.cards, node.labels, node.taints, node.cpu_milli, node.memory_bytes
        )

    @property
    def division(self) -> Division | None:
        """How it is divided; None if unknown."""
        return self.view.division

    @property
    def card_or_fail(self) -> MigCard:
        """Return the card of a node that is cordoned for a change.

        Raises:
            ValueError: its labels name no known card.
        """
        if self.view.card is None:
            raise ValueError(f"node {self.name} has no known card")
        return self.view.card


@dataclass(slots=True)
class Cluster:
    """The nodes and the waiting pods."""

    nodes: list[ClusterNode]
    waiting: dict[str, SeenPod]
    """Pods that the scheduler found no node for, by uid."""

    @property
    def advertised(self) -> Mapping[str, int]:
        """The most instances of each resource that one node has now, whether its card is known or not."""
        most = Counter[str]()
        for node in self.nodes:
            most |= Counter(dict(node.fact.amounts))
        return most

    @classmethod
    async def of(cls, state: LedgerStore, configs: Mapping[str, Division]) -> Cluster:
        """Read the cluster from the ledger's store, in parts, so that the event loop is not blocked."""
        seen = {name: node for name, node in state.nodes.items() if node.mig is not None}
        use: defaultdict[str, NodeUse] = defaultdict(NodeUse)
        waiting = dict[str, SeenPod]()
        async for keys in state.yielding.batches(list(state.pods)):
            for pod in filter(None, map(state.pods.get, keys)):
                if pod.fact.is_over:
                    continue
                if pod.fact.node in seen:
                    use[pod.fact.node].add(pod)
                elif pod.mig is not None and pod.mig.waits:
                    waiting[pod.mig.uid] = pod
        return cls([_node(node, configs, use[name]) for name, node in seen.items()], waiting)


def is_advertised(mig: MigPod, advertised: Mapping[str, int]) -> bool:
    """Whether some node has as many instances of each profile as a pod requests."""
    return all(advertised.get(_resource(name), 0) >= count for name, count in mig.wants)


def _node(node: SeenNode, configs: Mapping[str, Division], use: NodeUse) -> ClusterNode:
    fact = node.mig
    if fact is None:
        raise ValueError(f"node {node.fact.name} has nothing to do with MIG")
    seen = view(fact, node.fact.labels, configs, is_empty=not use.has_gpus)
    return ClusterNode(node.fact, node.uid, fact, seen, use)


def _resource(profile: str) -> str:
    return f"{MIG_RESOURCE_PREFIX}{profile.replace('+', '.')}"
