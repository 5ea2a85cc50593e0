"""The kubelet's two sockets: for the registration of device plugins, and for the devices of containers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from agent.containers import ContainerName
from agent.kubelet_api import deviceplugin_pb2 as plugin
from agent.kubelet_api import podresources_pb2 as resources
from agent.kubelet_api.services import Stub

VERSION = "v1beta1"
CALL_SECONDS = 10.0
MAX_ANSWER = 16 * 1024 * 1024
"""As for the kubelet's own clients; much more would not fit into the agent's memory."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
Identity = tuple[int, int]


class KubeletError(Exception):
    """The kubelet did not answer, or refused; the text says which."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A container with its devices and claims."""

    namespace: str
    pod: str
    container: str
    devices: tuple[tuple[str, tuple[str, ...]], ...]
    """Resource names with device IDs."""
    claims: tuple[str, ...] = ()
    """Names of ResourceClaims of its namespace: the whole claim, also if it uses one request of it."""

    @property
    def name(self) -> ContainerName:
        """The container."""
        return ContainerName(self.namespace, self.pod, self.container)

    @property
    def ids(self) -> frozenset[str]:
        """The device IDs of all resources."""
        return frozenset(each for _, ids in self.devices for each in ids)


class Kubelet:
    """The kubelet of this node."""

    def __init__(self, root: Path) -> None:
        self.plugins = root / "device-plugins"
        self._socket = self.plugins / "kubelet.sock"
        self._resources = root / "pod-resources" / "kubelet.sock"
        self._channel: grpc.aio.Channel | None = None

    def identity(self) -> Identity | None:
        """Return what identifies the kubelet's current socket; None without a socket."""
        try:
            status = self._socket.stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    async def register(self, resource: str, endpoint: str, options: plugin.DevicePluginOptions) -> None:
        """Register a socket in the folder of plugins; the kubelet calls it before it answers.

        Raises:
            KubeletError: it is away, or refuses.
        """
        request = plugin.RegisterRequest(
            version=VERSION, endpoint=endpoint, resource_name=resource, options=options
        )
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
                registration = Stub(plugin, "Registration", channel)
                await registration.Register(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise KubeletError(f"the kubelet does not register it: {error.details()}") from error

    async def holders(self) -> list[Holder]:
        """Return all containers that hold devices or claims, those of a pod in its order.

        Raises:
            KubeletError: its pod-resources socket does not answer.
        """
        return list(_holders(await self._ask_resources("List", resources.ListPodResourcesRequest())))

    async def allocatable(self) -> dict[str, frozenset[str]]:
        """Return the device IDs that it counts, by resource.

        Raises:
            KubeletError: its pod-resources socket does not answer.
        """
        answer = await self._ask_resources("GetAllocatableResources", resources.AllocatableResourcesRequest())
        found: defaultdict[str, set[str]] = defaultdict(set)
        for devices in answer.devices:
            found[devices.resource_name].update(devices.device_ids)
        return {name: frozenset(ids) for name, ids in found.items()}

    async def _ask_resources(self, method: str, request: object) -> Any:
        if self._channel is None:
            # Reused: gRPC never frees some bytes of each channel, and every container needs one.
            self._channel = grpc.aio.insecure_channel(f"unix:{self._resources}", options=_OPTIONS)
        call = getattr(Stub(resources, "PodResourcesLister", self._channel), method)
        try:
            return await call(request, timeout=CALL_SECONDS, wait_for_ready=self._resources.exists())
        except grpc.aio.AioRpcError as error:
            raise KubeletError(f"{self._resources}: {error.details()}") from error


def _holders(answer: resources.ListPodResourcesResponse) -> Iterator[Holder]:
    for pod in answer.pod_resources:
        for container in pod.containers:
            devices: defaultdict[str, list[str]] = defaultdict(list)
            for each in container.devices:
                devices[each.resource_name] += each.device_ids
            claims = tuple(each.claim_name for each in container.dynamic_resources)
            if devices or claims:
                given = tuple((resource, tuple(ids)) for resource, ids in devices.items())
                yield Holder(pod.namespace, pod.name, container.name, given, claims)
