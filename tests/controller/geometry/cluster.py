"""An API server in memory, with nodes whose MIG manager is the testbed's stand-in, and a scheduler."""

import copy
import json
from collections import Counter

from prometheus_client import CollectorRegistry

from controller.geometry.loop import GeometryLoop, GeometryOptions
from controller.geometry.metrics import GeometryMetrics
from controller.kube_client import ApiError
from controller.ledger_store import LedgerStore
from controller.resources import nodes as node_resource
from controller.resources import pods as pod_resource
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.resource_names import ResourceNames
from testbed.mig_manager import MigManagerStandIn, gpu_node_labels

NAMES = ResourceNames()
DELAY = 4.0


class CrashError(Exception):
    """The controller ends here."""


class Leading:
    leads = True


class MigCluster:
    """Everything that the geometry loop talks to; time goes on with each turn."""

    def __init__(self, product="NVIDIA-A100-SXM4-40GB", cards=(1,)):
        self.now = 0.0
        self.nodes, self.pods, self.managers = {}, {}, {}
        self.events = []
        self.config_map = None
        self.version = 0
        self.crash_after = None
        """Writes until the controller crashes, before or after the last of them."""
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
            "status": {"allocatable": {}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.managers[name] = MigManagerStandIn()

    def add_pod(self, name, profile, count=1, **spec):
        resource = MIG_RESOURCE_PREFIX + profile.replace("+", ".")
        requests = {resource: str(count)}
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"uid-{name}",
                "creationTimestamp": f"2026-01-01T00:00:{len(self.pods):02}Z",
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
            "status": {"phase": "Pending"},
        }

    def start(self):
        """Start a controller: the one before it may have ended anywhere."""
        self.registry = CollectorRegistry()
        self.store = LedgerStore(lambda: self.now)
        options = GeometryOptions("gpu-operator", "configs", DELAY, 1.0, 1.0)
        metrics = GeometryMetrics(self.registry)
        self.loop = GeometryLoop(self, self.store, Leading(), metrics, options, clock=lambda: self.now)

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
        self.now += 1.0
        self.schedule()
        for name, manager in self.managers.items():
            node = self.nodes[name]
            held = [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == name]
            answer = manager.turn(node, held, self.config_map)
            node["metadata"]["labels"].update(answer.labels)
            if answer.allocatable is not None:
                node["status"]["allocatable"] = answer.allocatable
        self.watch()
        try:
            await self.loop.step()
        except CrashError:
            self.crash_after = None
            self.start()

    def watch(self):
        nodes = node_resource(NAMES).reader
        for data in self.nodes.values():
            page, _ = nodes.read_list(json.dumps({"items": [data], "metadata": {}}).encode())
            self.store.set_node(page[0])
        pods = pod_resource(NAMES, with_mig=True).reader
        for key in [key for key in self.store.pods if key[1] not in self.pods]:
            self.store.remove_pod(key)
        for data in self.pods.values():
            page, _ = pods.read_list(json.dumps({"items": [data], "metadata": {}}).encode())
            self.store.set_pod(page[0])

    def schedule(self):
        """Bind what fits, as the scheduler does, and say of the rest that it does not."""
        for pod in self.waiting():
            wants = pod["spec"]["containers"][0]["resources"]["requests"]
            fitting = [name for name in self.nodes if self._fits(name, wants)]
            if fitting:
                pod["spec"]["nodeName"] = fitting[0]
                pod["status"] = {"phase": "Running"}
            else:
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
        free = {key: int(value) - used[key] for key, value in node["status"]["allocatable"].items()}
        return not node["spec"].get("unschedulable") and all(
            free.get(key, 0) >= int(amount) for key, amount in wants.items()
        )

    async def request(self, method, path, *, query=None, body=None, content_type=None):
        if self.refuse:
            self.refuse -= 1
            raise ApiError(500, "in-memory trouble")
        if method == "GET":
            return json.dumps(self._get(path, query)).encode()
        if path.endswith("/events"):
            self.events.append(body)
            return b"{}"
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
        node = self.nodes[path.rpartition("/")[2]]
        for key, changes in body.get("metadata", {}).items():
            node["metadata"][key].update(changes)
            node["metadata"][key] = {k: v for k, v in node["metadata"][key].items() if v is not None}
        node["spec"].update(body.get("spec", {}))
