"""Queues of a team, and what Kueue makes of its pods."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from kube.quantity import parse_quantity
from testbed.api import Api, ApiError, Object
from testbed.cluster import Cluster
from testbed.process import eventually
from testbed.registration import labelled_pod

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATE = "kueue.x-k8s.io/admission"
SLICES, MEMORY = "example.com/gpu-slices", "example.com/gpu-memory"
CLAIMED = "example.com/gpu-shares"
"""What Kueue counts for claims, as the page names it."""


def is_gated(pod: Object) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def slices_of(pod: Object) -> dict[str, str]:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name: amount for name, amount in limits.items() if name.startswith("nvidia.com/")}


def delete_jobs(control_plane: Cluster, namespace: str) -> None:
    """Delete all Jobs of a namespace with their pods, which the API server by itself leaves behind."""
    ended = control_plane.kubectl("delete", "jobs", "--all", f"--namespace={namespace}")
    assert ended.code == 0, ended.stderr


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace with queues; what is applied goes when the test ends."""

    api: Api
    namespace: str
    apply: Callable[[str], None]

    def _queues(self) -> list[list[Object]]:
        """Return the LocalQueues; nothing while a changed CustomResourceDefinition is read again."""
        try:
            return [self.api.list("LocalQueue", self.namespace, KUEUE)]
        except ApiError as error:
            if error.code != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return []

    def queue(
        self, slices: int, *, flavors: Mapping[str, Mapping[str, str]] | None = None, **spec: object
    ) -> str:
        """Create a LocalQueue with a ClusterQueue of its own, of this many slices of each flavor.

        A flavor has the labels of its nodes; without flavors there is one of any node.
        """
        names = {f"{self.namespace}-{name}": labels for name, labels in (flavors or {"any": {}}).items()}
        [queues] = eventually(self._queues, "the API server has read Kueue's changed resources again")
        number = len(queues)
        name = f"{self.namespace}-{number}"
        quotas = [{"name": SLICES, "nominalQuota": slices}, {"name": MEMORY, "nominalQuota": f"{slices}Ti"}]
        group = {
            "coveredResources": [SLICES, MEMORY],
            "flavors": [{"name": flavor, "resources": quotas} for flavor in names],
        }
        queue = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        objects = [
            *(_made("ResourceFlavor", flavor, {"nodeLabels": dict(each)}) for flavor, each in names.items()),
            _made("ClusterQueue", name, queue),
            _made("LocalQueue", name, {"clusterQueue": name}, self.namespace),
        ]
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return name

    def pod(
        self, name: str, queue: str, fraction: str = "0.500", *, priority: str = "", **spec: object
    ) -> Object:
        pod = labelled_pod(name, fraction, terminationGracePeriodSeconds=0, **spec)
        pod["metadata"]["labels"][QUEUE_LABEL] = queue
        if priority:
            pod["spec"]["priorityClassName"] = priority
        return self.api.create(pod, self.namespace)

    def running(self) -> list[str]:
        """Names of the pods with a node."""
        pods = self.api.list("Pod", self.namespace)
        return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))

    def waiting(self) -> list[str]:
        """Names of the pods that Kueue holds back."""
        return sorted(
            pod["metadata"]["name"] for pod in self.api.list("Pod", self.namespace) if is_gated(pod)
        )

    def why_not(self, owner: str) -> str:
        """Why Kueue reserves nothing for a pod or a Job; empty as long as it says nothing."""
        for each in self.api.list("Workload", self.namespace, KUEUE):
            if each["metadata"]["ownerReferences"][0]["name"] == owner:
                conditions = each.get("status", {}).get("conditions", ())
                return " ".join(one["message"] for one in conditions if one["type"] == "QuotaReserved")
        return ""


def reserved(api: Api, queue: str) -> dict[str, int]:
    """What is reserved in a ClusterQueue of one flavor, by resource; memory in bytes."""
    status = api.get("ClusterQueue", queue, api=KUEUE).get("status", {})
    found = [each for flavor in status.get("flavorsReservation", ()) for each in flavor["resources"]]
    return {each["name"]: int(parse_quantity(each["total"])) for each in found}


def _made(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec}
