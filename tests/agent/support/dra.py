"""An API server's slices and claims, and a kubelet as a DRA driver sees it."""

import contextlib
import json
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grpc

from agent.kubelet_api import dra_pb2 as api
from agent.kubelet_api import pluginregistration_pb2 as registration
from agent.kubelet_api.services import Stub
from agent.kubernetes.api_server import ApiServerError
from kube.dra import DRIVER
from kube.names import RESOURCE_SLICES_PATH
from tests.agent.support.kubelet import PATIENCE_S, until
from tests.agent.support.node import PER_GPU, AgentNode, node_with, running, until_says

NODE = "gpu-node"
UID, OTHER = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
OPTIONS = {"offer": "dra", "node": NODE}
TIME = "2026-11-23T00:00:00Z"


class ApiServer:
    """Keeps slices by name, and claims by namespace and name; while it is away it answers nothing."""

    def __init__(self, **slices: dict[str, Any]) -> None:
        self.slices = slices
        self.writes: list[dict[str, Any]] = []
        self.claims: dict[tuple[str, str], dict[str, Any]] = {}
        self.dropped: set[str] = set()  # fields of devices whose feature gates are off
        self.cordon = ""  # numbers of the cards that the Node's annotation names
        self.is_away = False
        self.looks = self.refused = 0

    def get(self, path: str) -> dict[str, Any]:
        self._answer()
        if path.startswith(f"{RESOURCE_SLICES_PATH}?"):
            self.looks += 1
            [selector] = parse_qs(urlsplit(path).query)["fieldSelector"]
            wanted = [each.removeprefix("spec.").split("=") for each in selector.split(",")]
            found = self.slices.values()
            fits = [each for each in found if all(each["spec"].get(key) == value for key, value in wanted)]
            return {"items": deepcopy(fits)}
        if path == f"/api/v1/nodes/{NODE}":
            return {"metadata": {"uid": "node-uid", "annotations": {"clearml-injector/cordon": self.cordon}}}
        *_, namespace, _, name = path.split("/")
        if (found := self.claims.get((namespace, name))) is None:
            raise ApiServerError("the API server answered 404", 404)
        return deepcopy(found)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._answer()
        stored = deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(len(self.writes))
        for device in stored["spec"]["devices"]:
            for field in self.dropped & device.keys():
                del device[field]
            for taint in device.get("taints", ()):
                taint["timeAdded"] = TIME
        self.slices[stored["metadata"]["name"]] = stored
        self.writes.append(stored)
        return deepcopy(stored)

    put = post

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def delete(self, path: str) -> None:
        self._answer()
        self.slices.pop(path.rpartition("/")[2], None)

    def add_claim(
        self, *granted: dict[str, Any], name: str = "claim", uid: str = UID, pod: str = "pod-uid", **devices
    ):
        """Allocate a claim of our DeviceClass, and reserve it for a pod."""
        results = [result(**each) for each in granted]
        reserved = [{"resource": "pods", "name": "pod", "uid": pod}]
        self.claims["default", name] = {
            "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"devices": {"requests": [_request(each["request"]) for each in results]}},
            "status": {"allocation": {"devices": {"results": results, **devices}}, "reservedFor": reserved},
        }

    @property
    def devices(self) -> dict[str, dict[str, Any]]:
        """Ours by name."""
        ours = [each for each in list(self.slices.values()) if each["spec"]["driver"] == DRIVER]
        return {each["name"]: each for one in ours for each in one["spec"]["devices"]}

    def _answer(self) -> None:
        if self.is_away:
            self.refused += 1
            raise ApiServerError("GET: connection refused")


def _request(name: str) -> dict[str, Any]:
    """A request of our DeviceClass, or one with an alternative of it."""
    name, _, alternative = name.partition("/")
    of_class = {"deviceClassName": DRIVER}
    return {"name": name} | (
        {"firstAvailable": [{"name": alternative, **of_class}]} if alternative else {"exactly": of_class}
    )


def result(device: str = "gpu-0", share: str | None = None, **more: Any) -> dict[str, Any]:
    """A result of an allocation, as the scheduler writes it."""
    consumed = {"consumedCapacity": {"share": share}} if share is not None else {}
    known = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": device, "shareID": "share-1"}
    return {**known, **consumed, **more}


class DraKubelet:
    """A kubelet that registered the driver of a node."""

    def __init__(self, node: AgentNode) -> None:
        self._node = node
        self.info = registration.PluginInfo()

    async def register(self) -> None:
        """Find the driver's socket, and register it, as the watcher of plugins does."""
        socket = self._node.root / "plugins_registry" / f"{DRIVER}-reg.sock"
        await until(socket.is_socket)
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            driver = Stub(registration, "Registration", channel)
            request = registration.InfoRequest()
            self.info = await driver.GetInfo(request, timeout=PATIENCE_S, wait_for_ready=True)
            told = registration.RegistrationStatus(plugin_registered=True)
            await driver.NotifyRegistrationStatus(told, timeout=PATIENCE_S)

    async def prepare(self, name: str = "claim", uid: str = UID) -> api.NodePrepareResourceResponse:
        return await self._call("Prepare", api.NodePrepareResourcesRequest, name, uid)

    async def unprepare(self, name: str = "claim", uid: str = UID) -> str:
        return (await self._call("Unprepare", api.NodeUnprepareResourcesRequest, name, uid)).error

    async def _call(self, verb: str, request: Any, name: str, uid: str) -> Any:
        claims = [api.Claim(namespace="default", name=name, uid=uid)]
        async with grpc.aio.insecure_channel(f"unix:{self.info.endpoint}") as channel:
            call = getattr(Stub(api, "DRAPlugin", channel), f"Node{verb}Resources")
            [answer] = (await call(request(claims=claims), timeout=PATIENCE_S)).claims.values()
            return answer


@contextlib.asynccontextmanager
async def dra_node(*cards, **options):
    """A node with cards, its kubelets, and the API server."""
    async with node_with(*cards, **OPTIONS, **options) as (node, kubelet):
        yield node, kubelet, ApiServer()


@contextlib.asynccontextmanager
async def registered(node, server, policy=PER_GPU):
    """A driver on a node, registered and published."""
    async with running(node, policy, api=server) as process:
        kubelet = DraKubelet(node)
        await kubelet.register()
        await until_says(process, None)
        yield kubelet


@contextlib.asynccontextmanager
async def offered(*cards, policy=PER_GPU, server=None, **options):
    """A node with a driver that offers its cards: the node, its kubelet, and the API server."""
    async with dra_node(*cards, **options) as (node, _, new):
        server = server or new
        async with registered(node, server, policy) as kubelet:
            yield node, kubelet, server


def slice_of_nvidia(*devices: dict[str, Any]) -> dict[str, Any]:
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "devices": list(devices)}
    return {"metadata": {"name": "nvidia"}, "spec": spec}


def limited_to(mib: Any, *requests: str, source: str = "FromClaim", **more: Any) -> dict[str, Any]:
    """A configuration of a claim for MiB, as the scheduler copies it."""
    parameters = {"apiVersion": f"{DRIVER}/v1", "kind": "GpuMemory", "memoryMiB": mib, **more}
    of_requests = {"requests": list(requests)} if requests else {}
    return {"source": source, **of_requests, "opaque": {"driver": DRIVER, "parameters": parameters}}


def claim_file(node: AgentNode, uid: str = UID) -> dict[str, Any]:
    """The CDI devices of a claim's limits, by name; none without its file."""
    file = node.cdi / f"clearml-injector.io-claim-{uid}.json"
    content = json.loads(file.read_text()) if file.exists() else {"devices": []}
    return {each["name"]: each["containerEdits"] for each in content["devices"] if each["name"] != "prepared"}
