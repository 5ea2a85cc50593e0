"""Registrations come back after everything that ends them."""

import json
from contextlib import AsyncExitStack

import grpc
import msgspec

from agent.kubelet_api import deviceplugin_pb2 as api
from tests.agent.support.kubelet import FakeKubelet, kubelet_in, until
from tests.agent.support.node import PER_GPU, card, node_folder, node_with, ready, running, served, until_says

NAME = "nvidia.com/gpu-0"


async def test_a_kubelet_that_starts_again_gets_a_new_registration():
    async with served(card(0), card(1)) as (node, kubelet):
        await kubelet.pre_start(NAME, "GPU-0::0")
        await kubelet.stop()
        async with kubelet_in(node.root) as again:
            await again.until_offered(NAME)
            await again.until_offered("nvidia.com/gpu-1")
            await again.allocate(NAME, "GPU-0::0")
            await again.pre_start(NAME, "GPU-0::0")


async def test_a_kubelet_that_starts_again_without_closing_a_stream_is_noticed_by_its_socket():
    async with served(card(0)) as (node, kubelet):
        # The one before goes on, unseen: its sockets' names are another kubelet's now.
        async with kubelet_in(node.root) as again:
            await again.until_offered(NAME)
        assert len(kubelet.registrations[NAME]) == 1


async def test_a_stream_that_ends_is_registered_again():
    async with served(card(0)) as (_, kubelet):
        for follower in list(kubelet._followers):
            follower.cancel()
        await until(lambda: len(kubelet.registrations[NAME]) > 1 and kubelet.devices.get(NAME))


async def test_a_name_that_another_plugin_took_is_registered_again(monkeypatch):
    monkeypatch.setattr("agent.plugins.PERIOD_SECONDS", 0.1)
    monkeypatch.setattr("agent.registration.SETTLE_SECONDS", 0.2)
    async with served(card(0), card(1)) as (_, kubelet):
        kubelet.devices[NAME] = {"other-0": "Healthy"}
        await until(lambda: len(kubelet.registrations[NAME]) >= 2)
        await kubelet.until_offered(NAME)
        assert len(kubelet.registrations["nvidia.com/gpu-1"]) == 1


async def test_nothing_is_registered_while_the_node_lacks_something(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.preparation.RETRY_SECONDS", 0.05)
    runtime = tmp_path / "runtime"
    async with node_with(card(0), runtime_file=str(runtime), cdi_enabled=False) as (node, kubelet):
        library = node.root / "state" / "library" / "libvgpu.so"
        library.unlink()
        node.write_card_names()
        async with running(node) as process:
            await until_says(process, "names GPU 0 (GPU-0)")
            node.write_card_names("GPU-0")
            await until_says(process, "give --runtime-file")
            runtime.write_text('{"version":"containerd://1.7.27","cdi":false}')
            await until_says(process, "CDI is off in containerd://1.7.27")
            runtime.write_text('{"version":"containerd://1.7.27","cdi":true}')
            await until_says(process, "put the library of limiter hami-core there")
            answer = await ready(process)
            assert (answer.status_code, "put the library" in answer.text) == (503, True)
            assert kubelet.registrations == {}
            library.touch()
            await kubelet.until_offered(NAME)


class Odd(FakeKubelet):
    """Refuses a plugin three times, takes it once and is silent, and then asks it."""

    asked = 0

    async def Register(self, request, context):  # noqa: N802 - the interface's name
        self.asked += 1
        if self.asked <= 3:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the ResourceName is invalid")
        return api.Empty() if self.asked == 4 else await super().Register(request, context)


async def test_a_kubelet_that_refuses_or_is_silent_is_asked_again_and_the_log_says_once_why(
    monkeypatch, capfd
):
    monkeypatch.setattr("agent.registration.STREAM_SECONDS", 0.2)
    with node_folder() as node:
        node.write_gpus(card(0))
        node.write_card_names("GPU-0")
        async with running(node) as process:
            await until_says(process, "away")
            async with kubelet_in(node.root, Odd) as kubelet:
                await kubelet.until_offered(NAME)
    lines = capfd.readouterr().err.splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]  # gRPC writes lines of its own
    assert [line["reason"] for line in said if line["event"] == "not registered"][:3] == [
        "the kubelet is away: its socket is not there",
        "the kubelet does not register it: the ResourceName is invalid",
        "the kubelet registered it, but does not ask for its devices",
    ]


async def test_a_kubelet_that_does_not_tell_who_holds_what_holds_nothing_up(capfd):
    async with node_with(card(0)) as (node, kubelet), running(node):
        kubelet.may_list.clear()
        await kubelet.until_offered(NAME)
        kubelet.may_list.set()
    assert "CDI device" not in capfd.readouterr().err


async def test_a_second_agent_of_a_node_takes_no_name_until_the_first_has_ended():
    async with node_with(card(0)) as (node, kubelet), AsyncExitStack() as first, AsyncExitStack() as second:
        await first.enter_async_context(running(node))
        await kubelet.until_offered(NAME)
        process = await second.enter_async_context(running(node))
        await until_says(process, "another agent runs on this node")
        assert len(kubelet.registrations[NAME]) == 1
        await first.aclose()
        await until_says(process, None)
        assert len(kubelet.registrations[NAME]) == 2


async def test_a_long_name_of_a_resource_fits_into_the_path_of_a_socket_on_microk8s():
    long = "a-long-name-of-a-company.example.com/a-long-name-of-its-shared-gpus-{index}"
    folder, most = "/var/snap/microk8s/common/var/lib/kubelet/device-plugins/", 107
    policy = msgspec.structs.replace(PER_GPU, resource=long)
    async with node_with(card(0)) as (node, kubelet), running(node, policy):
        await kubelet.until_offered(long.replace("{index}", "0"))
        [[socket]] = kubelet.registrations.values()
        assert len(folder + socket) <= most
