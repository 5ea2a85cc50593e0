"""Pods that get a claim on a part of a card from the product, and what the scheduler counts for them."""

from kube.names import PREFIX
from testbed.api import Object
from testbed.nodes.cluster import RealCluster
from testbed.process import eventually
from tests.real_nodes.pods import LIMIT, WORK, cards, environment, labelled, phase

API = "resource.k8s.io/v1"


class ClaimedPods:
    """Pods of a test."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._names: list[str] = []

    def create(self, name: str, fraction: str = "", *, memory: str = "", **container: object) -> None:
        """Create a labelled pod whose container requests a GPU, as one for a whole card would."""
        pod = labelled(name, fraction, **{"resources": {"limits": {"nvidia.com/gpu": "1"}}, **container})
        if memory:
            pod["metadata"]["labels"] = {PREFIX + "gpu-memory": memory}
        self.create_as_it_is(pod)

    def create_as_it_is(self, pod: Object) -> None:
        """Create a pod."""
        self._cluster.api.create(pod, WORK)
        self._names.append(pod["metadata"]["name"])

    def run(self, name: str, fraction: str = "", **more) -> None:
        """Create a pod, and wait until it runs."""
        self.create(name, fraction, **more)
        self.until_running(name)

    def until_running(self, name: str) -> None:
        """Wait for a pod."""
        eventually(lambda: phase(self._cluster, name) == "Running", f"{name} runs")

    def delete(self, name: str) -> None:
        """Delete a pod."""
        self._names.remove(name)
        self._cluster.api.delete("Pod", name, WORK)

    def delete_all(self) -> None:
        """Delete what is left of the test, and wait until no claim is left."""
        for name in list(self._names):
            self.delete(name)
        eventually(lambda: not claims(self._cluster), "no claim is left")

    def card(self, name: str) -> str:
        """The device node of the one card that a pod has."""
        [card] = cards(self._cluster, name)
        return card

    def limit(self, name: str) -> str | None:
        """The limit of a pod's first GPU."""
        return environment(self._cluster, name).get(LIMIT)


def claims(cluster: RealCluster) -> list[Object]:
    """Of the namespace."""
    return cluster.api.list("ResourceClaim", WORK, API)


def consumed(cluster: RealCluster) -> list[Object | None]:
    """What the scheduler counts for each allocated part of a card."""
    allocations = [claim["status"]["allocation"] for claim in claims(cluster)]
    results = [result for each in allocations for result in each["devices"]["results"]]
    return [each.get("consumedCapacity") for each in results]
