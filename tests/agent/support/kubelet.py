"""A kubelet as device plugins see it: registers them, follows their devices, asks them, starts again."""

# ruff: noqa: N802 - the interfaces' names

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc

from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_api import podresources_pb2 as resources
from agent.kubelet_api.services import Stub, serve
from agent.kubelet_checkpoint import SLICES_PER_GPU
from testbed.process import WAIT_S

PATIENCE_S = WAIT_S


async def until(check: Callable[[], object]) -> None:
    """Wait until something that nobody announces is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not check():  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(0.02)


class FakeKubelet:
    """A kubelet in a folder.

    As the real one it calls a plugin back before it answers Register, takes the newest plugin of a name
    without a word to the one before, and drops what is registered under a name when a stream of it ends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices: dict[str, dict[str, str]] = {}
        """Health by device id, by resource; a test adds those of other plugins."""
        self.first_devices: dict[str, dict[str, str]] = {}
        self.topology: dict[str, list[int]] = {}
        """NUMA nodes of the first device, by resource."""
        self.may_list = asyncio.Event()
        """Cleared, pod-resources does not answer."""
        self.may_list.set()
        self.lists = True
        """False, pod-resources answers with an error."""
        self.registrations: dict[str, list[str]] = {}
        """Endpoints in their order, by resource."""
        self.held: dict[tuple[str, str], dict[str, list[str]]] = {}
        """What pod-resources says: (pod, container) to device ids by resource."""
        self.claims: dict[tuple[str, str], list[str]] = {}
        """Likewise, to names of claims."""
        self._stubs: dict[str, Stub] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Clean the folder of plugins, as a kubelet does, and listen."""
        for socket in (self.root / "device-plugins").glob("*.sock"):
            socket.unlink(missing_ok=True)  # an agent that stops removes its own meanwhile
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        serve(self, api, "Registration", self._server)
        serve(self, resources, "PodResourcesLister", self._server)
        for folder in ("device-plugins", "pod-resources"):
            (self.root / folder).mkdir(exist_ok=True)
            self._server.add_insecure_port(f"unix:{self.root / folder / 'kubelet.sock'}")
        await self._server.start()

    async def stop(self) -> None:
        """End as a process does: all its connections with it."""
        for follower in list(self._followers):
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self._server.stop(None)
        self.devices.clear()

    async def Register(self, request, context):
        resource, endpoint = request.resource_name, request.endpoint
        channel = grpc.aio.insecure_channel(f"unix:{self.root / 'device-plugins' / endpoint}")
        stub = Stub(api, "DevicePlugin", channel)
        await stub.GetDevicePluginOptions(api.Empty(), timeout=PATIENCE_S)
        self._stubs[resource] = stub
        self.registrations.setdefault(resource, []).append(endpoint)
        follower = asyncio.create_task(self._follow(resource, stub, channel))
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        return api.Empty()

    async def _follow(self, resource: str, stub: Stub, channel: grpc.aio.Channel) -> None:
        try:
            async for response in stub.ListAndWatch(api.Empty()):
                self.topology[resource] = [node.ID for node in response.devices[0].topology.nodes]
                self.devices[resource] = {each.ID: each.health for each in response.devices}
                self.first_devices.setdefault(resource, self.devices[resource])
        except grpc.aio.AioRpcError:
            pass
        finally:
            self.devices.pop(resource, None)
            await channel.close()

    def write_checkpoint(
        self, *given: tuple[str, str, str, list[str], str | api.ContainerAllocateResponse | None]
    ) -> None:
        """Write the file of what containers were given: pod, container, resource, ids, and answer."""
        keys = "PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp"
        entries = [
            dict(zip(keys, (*names, {"-1": ids}, base64.b64encode(_answer(answer)).decode()), strict=True))
            for *names, ids, answer in given
        ]
        content = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
        (self.root / "device-plugins" / "kubelet_internal_checkpoint").write_text(json.dumps(content))

    async def until_first_offered(self, resource: str) -> int:
        """Wait until a resource is registered; return how many healthy devices it had at first."""
        await until(lambda: resource in self.first_devices)
        return list(self.first_devices[resource].values()).count("Healthy")

    async def until_offered(self, resource: str, healthy: int = 8) -> None:
        await until(lambda: list(self.devices.get(resource, {}).values()).count("Healthy") == healthy)

    async def allocate(self, resource: str, *ids: str) -> api.ContainerAllocateResponse:
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._stubs[resource].Allocate(request, timeout=PATIENCE_S)
        return answer.container_responses[0]

    async def prefer(self, resource: str, available: list[str], size: int, must: tuple[str, ...] = ()):
        wanted = {"must_include_deviceIDs": must, "allocation_size": size}
        one = api.ContainerPreferredAllocationRequest(available_deviceIDs=available, **wanted)
        request = api.PreferredAllocationRequest(container_requests=[one])
        answer = await self._stubs[resource].GetPreferredAllocation(request, timeout=PATIENCE_S)
        return list(answer.container_responses[0].deviceIDs)

    async def pre_start(self, resource: str, *ids: str) -> None:
        request = api.PreStartContainerRequest(devices_ids=ids)
        await self._stubs[resource].PreStartContainer(request, timeout=PATIENCE_S)

    async def List(self, request, context):
        await self.may_list.wait()
        if not self.lists:
            await context.abort(grpc.StatusCode.INTERNAL, "cannot list")
        pods = [
            resources.PodResources(name=names[0], namespace="default", containers=[self._container(*names)])
            for names in {**self.held, **self.claims}
        ]
        return resources.ListPodResourcesResponse(pod_resources=pods)

    def _container(self, *names: str) -> resources.ContainerResources:
        devices = [
            # One entry for each id, as the kubelet writes them.
            resources.ContainerDevices(resource_name=resource, device_ids=[each])
            for resource, ids in self.held.get(names, {}).items()
            for each in ids
        ]
        claims = [resources.DynamicResource(claim_name=each) for each in self.claims.get(names, ())]
        return resources.ContainerResources(name=names[1], devices=devices, dynamic_resources=claims)

    async def GetAllocatableResources(self, request, context):
        counted = [
            resources.ContainerDevices(resource_name=resource, device_ids=[each])
            for resource, devices in self.devices.items()
            for each, health in devices.items()
            if health == "Healthy"
        ]
        return resources.AllocatableResourcesResponse(devices=counted)


def _answer(given: str | api.ContainerAllocateResponse | None) -> bytes:
    """What a plugin answered: this, or that a GPU has so many slices."""
    if not isinstance(given, api.ContainerAllocateResponse):
        stated = {SLICES_PER_GPU: given} if given is not None else {}
        given = api.ContainerAllocateResponse(annotations=stated)
    return given.SerializeToString()


@contextlib.asynccontextmanager
async def kubelet_in(root: Path, kind: type[FakeKubelet] = FakeKubelet) -> AsyncIterator[FakeKubelet]:
    kubelet = kind(root)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
