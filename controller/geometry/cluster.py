"""Nodes, pods and requests as the geometry loop sees them in one step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.geometry.infeasible import never_fits
from controller.geometry.model import Division, MigRequest
from controller.geometry.node_view import NodeDivision, view
from controller.watch.ledger_store import LedgerStore
from controller.watch.mig_facts import MigNodeFact
from controller.watch.resources import SeenPod
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


@dataclass(slots=True)
class Cluster:
    """The nodes, and the pods that the scheduler found no node for, by UID."""

    nodes: list[ClusterNode]
    waiting: dict[str, MigRequest]
    """Pods that some card may be divided for."""
    impossible: dict[str, tuple[MigRequest, str]]
    """Pods that no card can ever serve, and why."""

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
                elif pod.mig is not None and pod.mig.waits:
                    waiting[pod.mig.uid] = MigRequest(pod.fact, pod.mig)
        nodes = [
            ClusterNode(
                node.fact,
                node.uid,
                node.mig,
                view(node.mig, node.fact.labels, configs, is_empty=not use[name].has_gpus),
                use[name],
            )
            for name, node in state.nodes.items()
            if node.mig is not None
        ]
        impossible = _impossible(nodes, waiting)
        possible = {uid: each for uid, each in waiting.items() if uid not in impossible}
        return cls(nodes, possible, impossible)


def _impossible(
    nodes: list[ClusterNode], waiting: Mapping[str, MigRequest]
) -> dict[str, tuple[MigRequest, str]]:
    """Return the pods that no card can ever serve and no node advertises instances for."""
    largest, advertised = dict[MigCard, int](), Counter[str]()
    for node in nodes:
        advertised |= Counter(dict(node.fact.amounts))
        if (card := node.view.card) is not None and node.fact.is_ours:
            largest[card] = max(largest.get(card, 0), node.view.cards)
    problems = {
        wants: problem
        for wants in {each.mig.wants for each in waiting.values()}
        if (problem := never_fits(wants, largest)) is not None
        and any(advertised[_resource(name)] < count for name, count in wants)
    }
    return {
        uid: (each, problems[each.mig.wants]) for uid, each in waiting.items() if each.mig.wants in problems
    }


def _resource(profile: str) -> str:
    return f"{MIG_RESOURCE_PREFIX}{profile.replace('+', '.')}"
