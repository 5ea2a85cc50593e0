"""An API server in memory, with nodes whose MIG manager is the testbed's stand-in, and a scheduler."""

import copy
import json
from collections import Counter
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from cluster.kube_client import ApiError
from controller.geometry.loop import GeometryLoop, GeometryOptions
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes as node_resource
from controller.watch.resources import pods as pod_resource
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.resource_names import ResourceNames
from testbed.mig_manager import MigManagerStandIn, gpu_node_labels
from tests.cluster.events import KeptEvents

NAMES = ResourceNames()
DELAY = 4.0
OTHER_AMOUNTS = {"cpu": "64", "memory": "256Gi"}
"""Of each node."""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class CrashError(Exception):
    """The controller ends here."""


class Leading:
    """Leads, for as many more writes as a test says."""

    def __init__(self, cluster):
        self._cluster = cluster

    @property
    def leads(self):
        return self._cluster.leads_for != 0


class MigCluster:
    """Everything that the geometry loop talks to; time goes on with each turn."""

    def __init__(self, product="NVIDIA-A100-SXM4-40GB", cards=(1,), work_turns=2, **options):
        self.now = 0.0
        self.seconds = 1.0
        """Of a turn."""
        quick = {"delay_seconds": DELAY, "drain_seconds": 1.0, "pause_seconds": 0.0}
        self.options = {**quick, **options}
        self._work_turns = work_turns
        self._made = 0
        self.nodes, self.pods, self.managers = {}, {}, {}
        self.kept = KeptEvents()
        self.config_map = None
        self.version = 0
        self.crash_after = None
        """Writes until the controller crashes, before or after the last of them."""
        self.leads_for = None
        """Writes to nodes until the controller no longer leads; None for any number."""
        self.refuse = 0
        self.registry = CollectorRegistry()
        for number, count in enumerate(cards):
            self.add_node(f"n{number}", product, count)
        self.start()

    def add_node(self, name, product, cards, **labels):
        own = {"clearml-injector/gpu-partitioning": "mig", **gpu_node_labels(product, cards), **labels}
        self.nodes[name] = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": own, "annotations": {}},
            "spec": {},
            "status": {
                "allocatable": dict(OTHER_AMOUNTS),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.managers[name] = MigManagerStandIn(self._work_turns)

    def add_pod(self, name, profile, count=1, namespace="team", cpu="1", **spec):
        resource = MIG_RESOURCE_PREFIX + profile.replace("+", ".")
        requests = {resource: str(count), "cpu": cpu}
        self._made += 1
        created = BEGINNING + timedelta(seconds=self._made)
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}-{self._made}",
                "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
            "status": {"phase": "Pending"},
        }

    def start(self):
        """Start a controller: the one before it may have ended anywhere."""
        self.registry = CollectorRegistry()
        started = self.now
        self.store = LedgerStore(lambda: self.now)
        options = GeometryOptions("gpu-operator", "configs", **self.options)
        metrics = ControllerMetrics(self.registry)
        clock, wall = (lambda: self.now - started), (lambda: BEGINNING.timestamp() + self.now)
        self.leadership = Leading(self)
        self.loop = GeometryLoop(
            self, self.store, self.leadership, metrics, options, events=self.kept, clock=clock, wall=wall
        )

    def count(self, result):
        return self.registry.get_sample_value("fraction_injector_mig_changes_total", {"result": result})

    def reasons(self):
        return Counter(event["reason"] for event in self.events)

    async def run(self, turns):
        for _ in range(turns):
            await self.turn()

    async def until_quiet(self, most=400):
        """Turn until all pods run, or nothing has been done for long enough that nothing will be."""
        quiet = 0
        while self.waiting() and quiet < 40 and most:
            before = copy.deepcopy((self.nodes, self.config_map))
            await self.turn()
            quiet = quiet + 1 if before == (self.nodes, self.config_map) else 0
            most -= 1
        await self.run(15)

    async def turn(self):
        self.now += self.seconds
        self.schedule()
        for name, manager in self.managers.items():
            node = self.nodes[name]
            held = [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == name]
            answer = manager.turn(node, held, self.config_map)
            node["metadata"]["labels"].update(answer.labels)
            if answer.allocatable is not None:
                node["status"]["allocatable"] = {**OTHER_AMOUNTS, **answer.allocatable}
        self.watch()
        try:
            await self.loop.step()
        except CrashError:
            self.crash_after = None
            self.start()

    def watch(self):
        nodes = node_resource(NAMES).reader
        for name in self.store.nodes.keys() - self.nodes.keys():
            self.store.remove_node(name)
        for data in self.nodes.values():
            self.store.set_node(nodes.read_object(json.dumps(data).encode()))
        pods = pod_resource(NAMES, with_mig=True).reader
        for key in [key for key in self.store.pods if key[1] not in self.pods]:
            self.store.remove_pod(key)
        for data in self.pods.values():
            self.store.set_pod(pods.read_object(json.dumps(data).encode()))

    def schedule(self):
        """Bind what fits, as the scheduler does, and say of the rest that it does not."""
        for pod in self.waiting():
            if pod["metadata"].get("deletionTimestamp"):
                self._refuse(pod)
                continue
            wants = pod["spec"]["containers"][0]["resources"]["requests"]
            selector = pod["spec"].get("nodeSelector", {}).items()
            fitting = [
                name
                for name, node in self.nodes.items()
                if selector <= node["metadata"]["labels"].items() and self._fits(name, wants)
            ]
            if fitting:
                pod["spec"]["nodeName"] = fitting[0]
                pod["status"] = {"phase": "Running"}
            else:
                self._refuse(pod)

    def _refuse(self, pod):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"]["conditions"] = [condition]

    def waiting(self):
        return [pod for pod in self.pods.values() if "nodeName" not in pod["spec"]]

    def _fits(self, name, wants):
        node = self.nodes[name]
        used = Counter()
        for pod in self.pods.values():
            if pod["spec"].get("nodeName") == name:
                requests = pod["spec"]["containers"][0]["resources"]["requests"]
                used.update({key: int(amount) for key, amount in requests.items()})
        amounts = node["status"]["allocatable"]
        free = {key: int(value) - used[key] for key, value in amounts.items() if key != "memory"}
        return not node["spec"].get("unschedulable") and all(
            free.get(key, 0) >= int(amount) for key, amount in wants.items()
        )

    @property
    def events(self):
        return self.kept.bodies

    async def request(self, method, path, *, query=None, body=None, content_type=None):
        if self.refuse:
            self.refuse -= 1
            raise ApiError(500, "in-memory trouble")
        if method == "GET":
            return json.dumps(self._get(path, query)).encode()
        if self.crash_after == 0:
            raise CrashError
        self._write(method, path, body)
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after == 0:
                raise CrashError
        return b"{}"

    def _get(self, path, query):
        if path == "/api/v1/pods":
            name = query["fieldSelector"].removeprefix("spec.nodeName=")
            return {"items": [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == name]}
        assert path == "/api/v1/namespaces/gpu-operator/configmaps/configs", path
        if self.config_map is None:
            raise ApiError(404, "not found")
        return {"metadata": {"resourceVersion": str(self.version)}, "data": {"config.yaml": self.config_map}}

    def _write(self, method, path, body):
        if "/configmaps" in path:
            version = body["metadata"].get("resourceVersion")
            assert (method == "POST") == (self.config_map is None)
            if version is not None and version != str(self.version):
                raise ApiError(409, "conflict")
            self.version += 1
            self.config_map = body["data"]["config.yaml"]
            return
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise ApiError(404, "not found")
        node = self.nodes[name]
        self.leads_for = self.leads_for and self.leads_for - 1
        for key, changes in body.get("metadata", {}).items():
            node["metadata"][key].update(changes)
            node["metadata"][key] = {k: v for k, v in node["metadata"][key].items() if v is not None}
        node["spec"].update(body.get("spec", {}))
