"""Another device plugin, which takes a name that is taken."""

import asyncio
from pathlib import Path

import grpc

from agent.kubelet import Kubelet
from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_api.services import serve


class OtherPlugin:
    """Offers some devices for as long as it is not stopped.

    Args:
        folder: Of device plugins.
        endpoint: Name of its socket.
        ids: Of its devices.
    """

    def __init__(self, folder: Path, endpoint: str, ids: list[str]) -> None:
        self._folder, self._endpoint, self._ids = folder, endpoint, ids
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])

    async def start(self, resource: str) -> None:
        """Serve and register."""
        serve(self, api, "DevicePlugin", self._server)
        self._server.add_insecure_port(f"unix:{self._folder / self._endpoint}")
        await self._server.start()
        await Kubelet(self._folder.parent).register(resource, self._endpoint, api.DevicePluginOptions())

    async def stop(self) -> None:
        """End it."""
        await self._server.stop(None)

    async def GetDevicePluginOptions(self, request, context):  # noqa: N802 - the interface's name
        return api.DevicePluginOptions()

    async def ListAndWatch(self, request, context):  # noqa: N802 - the interface's name
        yield api.ListAndWatchResponse(devices=[api.Device(ID=each, health="Healthy") for each in self._ids])
        await asyncio.Event().wait()
