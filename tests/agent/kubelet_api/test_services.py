"""Interfaces of .proto files are called and served as their own gRPC stubs would."""

import asyncio

import grpc
import pytest

from agent.kubelet_api import deviceplugin_pb2 as api
from agent.kubelet_api.services import Stub, serve
from testbed.process import WAIT_S


class Plugin:
    """Has two of the five methods of a device plugin."""

    async def Allocate(self, request, context):  # noqa: N802 - the interface's name
        asked = [",".join(each.devices_ids) for each in request.container_requests]
        return api.AllocateResponse(
            container_responses=[api.ContainerAllocateResponse(envs={"IDS": ids}) for ids in asked]
        )

    async def ListAndWatch(self, request, context):  # noqa: N802 - the interface's name
        for health in ("Healthy", "Unhealthy"):
            yield api.ListAndWatchResponse(devices=[api.Device(ID="a", health=health)])


def asked(tmp_path, question):
    """What `question(stub)` gets of a server of that plugin."""

    async def main():
        server = grpc.aio.server()
        serve(Plugin(), api, "DevicePlugin", server)
        server.add_insecure_port(f"unix:{tmp_path / 'plugin.sock'}")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'plugin.sock'}") as channel:
                return await question(Stub(api, "DevicePlugin", channel))
        finally:
            await server.stop(None)

    return asyncio.run(main())


def test_a_call_carries_its_request_and_its_answer(tmp_path):
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=["a", "b"]) for _ in range(2)]
    )
    answer = asked(tmp_path, lambda plugin: plugin.Allocate(request, timeout=WAIT_S))
    assert [dict(each.envs) for each in answer.container_responses] == [{"IDS": "a,b"}] * 2


def test_a_method_that_the_implementation_lacks_is_unimplemented(tmp_path):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        asked(
            tmp_path, lambda plugin: plugin.PreStartContainer(api.PreStartContainerRequest(), timeout=WAIT_S)
        )
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_method_that_the_interface_lacks_is_no_attribute():
    stub = Stub(api, "Registration", grpc.insecure_channel("unix:/nowhere"))
    assert callable(stub.Register)
    with pytest.raises(AttributeError, match="Allocate"):
        _ = stub.Allocate
