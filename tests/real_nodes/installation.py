"""The product as an admin installs it, with its pods to look into."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.api import Object
from testbed.chart import RELEASE, Helm
from testbed.command import Output
from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import LIMITER
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, probe, refuses

READY_S = 400
"""A machine may be busy with much else."""
COMPONENTS = ("controller", "webhook")
VALUES: Mapping[str, Any] = {
    # The tests ask whether a create fails. On a busy machine it may take longer than the chart's 5 s.
    "webhook": {"timeoutSeconds": 20},
    "image": {"repository": "localhost/fraction-injector", "tag": "test"},
    "limiters": {"hami-core": {"extends": "hami-core", "initContainer": {"image": LIMITER}}},
}


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    uid: str
    node: str
    address: str
    restarts: int


class Installation:
    """The release in a cluster."""

    def __init__(self, cluster: RealCluster, helm: Helm) -> None:
        self.cluster = cluster
        self.helm = helm

    def install(self, values: Mapping[str, Any]) -> None:
        """Install or upgrade, and wait until all pods are ready and labelled pods are served."""
        self.helm.apply(values)
        self.until_served()

    def until_served(self) -> None:
        """Wait until all replicas are ready and a labelled pod is let in."""
        for component in COMPONENTS:
            eventually(lambda c=component: self.rolled_out(c), f"{component} is rolled out", READY_S)
        eventually(lambda: not refuses(probe(self.cluster.api, "work")), "labelled pods are served", READY_S)

    def rolled_out(self, component: str) -> bool:
        """Whether a Deployment has all its replicas, ready and of the newest template."""
        deployment = self.deployment(component)
        status, wanted = deployment["status"], deployment["spec"]["replicas"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return (
            status.get("observedGeneration") == deployment["metadata"]["generation"]
            and counts == [wanted] * 3
        )

    def deployment(self, component: str) -> Object:
        return self.cluster.api.get("Deployment", f"{RELEASE}-{component}", OWN_NAMESPACE, "apps/v1")

    def objects(self, component: str) -> list[Object]:
        """The pods of a component that nobody is about to delete."""
        labels = f"app.kubernetes.io/component={component}"
        pods = self.cluster.api.list("Pod", OWN_NAMESPACE, labels=labels)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def pods(self, component: str) -> list[Pod]:
        """The same, with what is worth knowing of each."""
        return [_pod(found) for found in self.objects(component) if found["status"].get("podIP")]

    def leader(self) -> Pod:
        return eventually(self._leader, "a controller leads")

    def _leader(self) -> Pod | None:
        lease = self.cluster.api.get(
            "Lease", f"{RELEASE}-controller", OWN_NAMESPACE, "coordination.k8s.io/v1"
        )
        holder = lease["spec"].get("holderIdentity") or ""
        return next((pod for pod in self.pods("controller") if pod.name in holder), None)

    def kubectl(self, *arguments: str) -> Output:
        return self.cluster.kubectl(f"--namespace={OWN_NAMESPACE}", *arguments)

    def exec(self, pod: str, *command: str) -> Output:
        return self.kubectl("exec", pod, "--", *command)

    def kill(self, pod: Pod) -> None:
        """Kill a pod's process: SIGKILL, from outside of it."""
        node = self.cluster.nodes[pod.node]
        node.sandbox.check("kill", "-KILL", self.processes(pod)[0])

    def processes(self, pod: Pod) -> list[str]:
        """Pids of a pod's processes that run the product, the oldest first, as the node counts."""
        script = f"""for found in $(grep --files-with-matches --no-messages {pod.uid} /proc/[0-9]*/cgroup); do
            folder=${{found%/cgroup}}
            tr '\\0' ' ' < $folder/cmdline | grep --quiet cli.main && echo ${{folder#/proc/}}
        done; true"""
        return sorted(self.cluster.nodes[pod.node].sandbox.check("bash", "-c", script).split(), key=int)


def _pod(found: Object) -> Pod:
    statuses = found["status"].get("containerStatuses", [])
    return Pod(
        name=found["metadata"]["name"],
        uid=found["metadata"]["uid"],
        node=found["spec"]["nodeName"],
        address=found["status"]["podIP"],
        restarts=sum(status["restartCount"] for status in statuses),
    )


def until(moment: float) -> None:
    """Let time pass that is part of what is tested, such as the seconds over which pods are created."""
    time.sleep(max(0.0, moment - time.monotonic()))


def first(pods: Sequence[Pod]) -> Pod:
    return min(pods, key=lambda pod: pod.name)
