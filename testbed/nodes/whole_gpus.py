"""A device plugin that offers whole GPUs by their UUIDs under one name, as NVIDIA's does.

Run it on a node: python -m testbed.nodes.whole_gpus FOLDER UUID ...
"""

import asyncio
import sys
from pathlib import Path

import grpc

from agent.kubelet import Kubelet
from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_api.services import serve

RESOURCE = "nvidia.com/gpu"
ENDPOINT = "nvidia-gpu.sock"


class WholeGpus:
    """Hands over a GPU by the variable that NVIDIA's runtime reads.

    Args:
        uuids: Of the GPUs.
    """

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = uuids

    async def GetDevicePluginOptions(self, request, context):  # noqa: N802 - the interface's name
        return api.DevicePluginOptions()

    async def ListAndWatch(self, request, context):  # noqa: N802 - the interface's name
        yield api.ListAndWatchResponse(
            devices=[api.Device(ID=each, health="Healthy") for each in self._uuids]
        )
        await asyncio.Event().wait()

    async def Allocate(self, request, context):  # noqa: N802 - the interface's name
        given = [",".join(each.devices_ids) for each in request.container_requests]
        return api.AllocateResponse(
            container_responses=[
                api.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": uuids}) for uuids in given
            ]
        )


async def main(folder: Path, uuids: list[str]) -> None:
    """Serve until killed."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    serve(WholeGpus(uuids), api, "DevicePlugin", server)
    (folder / ENDPOINT).unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{folder / ENDPOINT}")
    await server.start()
    await Kubelet(folder.parent).register(RESOURCE, ENDPOINT, api.DevicePluginOptions())
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
