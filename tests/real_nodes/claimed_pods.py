"""Pods that get a claim on a part of a card from the product, and what the scheduler counts for them."""

from kube.names import PREFIX
from testbed.api import Object
from testbed.nodes.cluster import RealCluster
from tests.real_nodes.agent_pods import Pods
from tests.real_nodes.pods import LIMIT, WORK, cards, labelled

API = "resource.k8s.io/v1"


class ClaimedPods(Pods):
    """Pods of a test with a label."""

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__(cluster, WORK)

    def create(self, name: str, fraction: str = "", *, memory: str = "", **container: object) -> None:
        """Create a labelled pod whose container requests a GPU, as one for a whole card would."""
        pod = labelled(name, fraction, **{"resources": {"limits": {"nvidia.com/gpu": "1"}}, **container})
        if memory:
            pod["metadata"]["labels"] = {PREFIX + "gpu-memory": memory}
        self.create_as_it_is(pod)

    def held(self) -> object:
        return claims(self._cluster)

    def card(self, name: str) -> str:
        """The device node of the one card that a pod has."""
        [card] = cards(self._cluster, name)
        return card

    def limit(self, name: str) -> str | None:
        return self.environment(name).get(LIMIT)


def claims(cluster: RealCluster) -> list[Object]:
    return cluster.api.list("ResourceClaim", WORK, API)


def consumed(cluster: RealCluster) -> list[Object | None]:
    """What the scheduler counts for each allocated part of a card."""
    allocations = [claim["status"]["allocation"] for claim in claims(cluster)]
    results = [result for each in allocations for result in each["devices"]["results"]]
    return [each.get("consumedCapacity") for each in results]
