"""A node whose GPUs the agent offers, and pods that ask it for slices."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import binaries
from testbed.api import Object
from testbed.nodes import parts
from testbed.nodes.cluster import RealCluster
from testbed.nodes.layout import PLAIN, Layout
from testbed.nodes.node import Equipment
from testbed.nodes.stub_images import WORKLOAD
from testbed.nvidia import parts as nvidia_parts
from testbed.nvidia.cards import Card
from testbed.process import eventually
from tests.conftest import Say
from tests.real_nodes.conftest import CLUSTER
from tests.real_nodes.pods import environment, inside

NODE = "gpu-node-1"
SMALL, LARGE = 0, 1
"""GPUs of 40 and of 80 GB."""
GPUS = [
    Card("GPU-aaaaaaaa-0000", "NVIDIA A100-40GB"),
    Card("GPU-bbbbbbbb-1111", "NVIDIA A100-80GB", minor=1, memory_mib=81920),
]
STARTED = {"Running", "Succeeded", "Failed"}


@contextmanager
def agent_cluster(  # noqa: PLR0913 what a node may differ in
    say: Say,
    pytestconfig: pytest.Config,
    gpus: Sequence[Card] = GPUS,
    image: Path | None = None,
    layout: Layout = PLAIN,
    *,
    by_dra: bool = False,
) -> Iterator[RealCluster]:
    """A cluster of one node, whose GPUs the agent offers; its logs are shown where a test fails.

    With an image the agent is left to the chart; by DRA, nothing offers slices.
    """
    built, node_parts = binaries.build(say), parts.build(say)
    nvidia_parts.build(say)
    before = pytestconfig.stash.get(CLUSTER, None)
    archives = [image] if image is not None else []
    has = Equipment(gpus, agent_from_chart=image is not None, agent_by_dra=by_dra, layout=layout)
    with RealCluster(built, node_parts, nodes=1, archives=archives, each=has) as cluster:
        pytestconfig.stash[CLUSTER] = cluster
        yield cluster
        pytestconfig.stash[CLUSTER] = before


class Pods:
    def __init__(self, cluster: RealCluster, namespace: str = "default") -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._names: list[str] = []

    def create(self, name: str, *containers: dict, init: tuple[dict, ...] = (), **spec) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": list(containers),
                "initContainers": list(init),
                **spec,
            },
        }
        self.create_as_it_is(pod)

    def create_as_it_is(self, pod: Object) -> None:
        self._names.append(pod["metadata"]["name"])
        self._cluster.api.create(pod, self._namespace)

    def run(self, name: str, *arguments, **more) -> None:
        self.create(name, *arguments, **more)
        self.until_running(name)

    def until_running(self, name: str) -> None:
        eventually(lambda: self.phase(name) in STARTED, f"{name} is started")
        assert self.phase(name) == "Running", self.status(name)

    def status(self, name: str) -> dict:
        return self._cluster.api.get("Pod", name, self._namespace)["status"]

    def phase(self, name: str) -> str | None:
        return self.status(name).get("phase")

    def inside(self, name: str, *command: str, container: str = "") -> str:
        """Run a command in a container, the first if none is named, and return what it prints."""
        return inside(self._cluster, name, *command, container=container, namespace=self._namespace)

    def environment(self, name: str, container: str = "") -> dict[str, str]:
        return environment(self._cluster, name, container=container, namespace=self._namespace)

    def held(self) -> object:
        """Slices by pod and resource, as the kubelet's books have them."""
        held = self._cluster.nodes[NODE].held_slices()
        return {(pod, resource): count for (_, pod, resource), count in held.items()}

    def delete(self, name: str) -> None:
        self._cluster.api.delete("Pod", name, self._namespace)

    def delete_all(self) -> None:
        """Delete every pod of the test, and wait until nothing is held."""
        for name in self._names:
            self.delete(name)
        eventually(lambda: not self.held(), "nothing is held")


def container(name: str = "main", command: str = "sleep 3600", env=None, **slices: int) -> dict:
    """A container that asks for slices: `gpu0=3` are three of GPU 0."""
    amounts = {f"nvidia.com/gpu-{key.removeprefix('gpu')}": str(count) for key, count in slices.items()}
    return {
        "name": name,
        "image": WORKLOAD,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"limits": amounts},
    }
