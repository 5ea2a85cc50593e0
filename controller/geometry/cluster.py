"""Nodes, pods and requests as the geometry loop sees them at one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.geometry.mig_config import Division
from controller.geometry.model import MigRequest
from controller.geometry.node_view import NodeDivision, view
from controller.geometry.planner import MAX_REQUESTS
from controller.ledger_store import LedgerStore
from controller.mig_facts import MigNodeFact
from controller.resources import SeenNode, SeenPod
from kube.matching import labels_match, tolerates
from ledger.facts import PodKey
from modes.mig_profiles import MIG_RESOURCE_PREFIX, MigCard


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that is divided on demand, or has instances."""

    name: str
    uid: str
    fact: MigNodeFact
    view: NodeDivision
    held: Mapping[str, int]
    is_usable: bool
    """Ready and schedulable."""

    @property
    def division(self) -> Division | None:
        """How it is divided, where that is known."""
        return self.view.division

    @property
    def card_or_fail(self) -> MigCard:
        """Its card, of a node that is cordoned for a change.

        Raises:
            ValueError: its labels name no known card.
        """
        if self.view.card is None:
            raise ValueError(f"node {self.name} has no known card")
        return self.view.card


@dataclass(slots=True)
class Cluster:
    """What there is, and who waits: the oldest of those that wait, as many as one plan looks at."""

    nodes: list[ClusterNode]
    requests: list[MigRequest]
    uids: dict[PodKey, str] = field(default_factory=dict)
    """Of the pods that wait."""

    def is_advertised(self, request: MigRequest) -> bool:
        """Whether a node already has as many instances as are wanted, whatever we know of its card."""
        return any(
            all(dict(node.fact.amounts).get(_resource(name), 0) >= count for name, count in request.wants)
            for node in self.nodes
        )

    @classmethod
    async def of(cls, state: LedgerStore, configs: Mapping[str, Division]) -> Cluster:
        """Read it off the ledger's store, a part in each step of the event loop."""
        seen = {name: node for name, node in state.nodes.items() if node.mig is not None}
        held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        busy = set[str]()
        waiting: list[SeenPod] = []
        async for keys in state.turns.slices(list(state.pods)):
            for pod in filter(None, map(state.pods.get, keys)):
                node = pod.fact.node
                if pod.fact.is_over:
                    continue
                if node in seen and (pod.mig is not None or pod.fact.slices):
                    busy.add(node)
                    held[node].update(dict(pod.mig.wants) if pod.mig is not None else {})
                elif pod.mig is not None and pod.mig.waits:
                    waiting.append(pod)
        nodes = [_node(node, configs, held[name], is_empty=name not in busy) for name, node in seen.items()]
        waiting = sorted(waiting, key=lambda pod: (pod.mig.created if pod.mig else "", pod.fact.key))[
            :MAX_REQUESTS
        ]
        requests = [_request(pod, seen) for pod in waiting]
        return cls(
            nodes,
            [request for request in requests if request.nodes is None or request.nodes],
            {pod.fact.key: pod.mig.uid for pod in waiting if pod.mig is not None},
        )


def _node(
    node: SeenNode, configs: Mapping[str, Division], held: Counter[str], *, is_empty: bool
) -> ClusterNode:
    fact = node.mig
    if fact is None:
        raise ValueError(f"node {node.fact.name} has nothing to do with MIG")
    seen = view(fact, node.fact.labels, configs, is_empty=is_empty)
    return ClusterNode(node.fact.name, node.uid, fact, seen, held, node.fact.usable)


def _request(pod: SeenPod, nodes: Mapping[str, SeenNode]) -> MigRequest:
    if pod.mig is None or pod.mig.constraints is None:
        return MigRequest(pod.fact.key, (), nodes=frozenset())
    constraints = pod.mig.constraints
    fitting = frozenset(
        name
        for name, node in nodes.items()
        if node.mig is not None
        and node.mig.is_ours
        and labels_match(constraints, name, node.fact.labels)
        and tolerates(constraints.tolerations, node.fact.taints)
    )
    return MigRequest(pod.fact.key, pod.mig.wants, pod.mig.created, fitting)


def _resource(profile: str) -> str:
    return f"{MIG_RESOURCE_PREFIX}{profile.replace('+', '.')}"
