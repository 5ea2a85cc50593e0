"""Registrations come back after everything that ends them."""

import json
from contextlib import AsyncExitStack

import grpc
import msgspec
import pytest

from agent import plugins
from agent.kubelet_api import deviceplugin_pb2 as api
from tests.agent.support.kubelet import FakeKubelet, kubelet_in
from tests.agent.support.node import PER_GPU, card, ids, node_folder, node_with, ready, running, served, until
from tests.agent.support.other_plugin import OtherPlugin

NAME = "nvidia.com/gpu-0"


async def test_a_kubelet_that_starts_again_gets_a_new_registration():
    async with served(card(0), card(1)) as (node, kubelet):
        await kubelet.pre_start(NAME, "GPU-0::0")
        await kubelet.stop()
        again = FakeKubelet(node.root)
        await again.start()
        await again.until_offered(NAME)
        await again.until_offered("nvidia.com/gpu-1")
        await again.allocate(NAME, "GPU-0::0")
        await again.pre_start(NAME, "GPU-0::0")
        await again.stop()


async def test_a_kubelet_that_starts_again_without_closing_a_stream_is_noticed_by_its_socket():
    async with served(card(0)) as (node, kubelet):
        # The one before goes on, unseen: its sockets' names are another kubelet's now.
        again = FakeKubelet(node.root)
        await again.start()
        await again.until_offered(NAME)
        await again.stop()
        assert len(kubelet.registrations[NAME]) == 1


async def test_a_stream_that_ends_is_registered_again():
    async with served(card(0)) as (_, kubelet):
        for follower in list(kubelet._followers):
            follower.cancel()
        await kubelet.until(lambda: len(kubelet.registrations[NAME]) > 1 and kubelet.devices.get(NAME))


@pytest.fixture
def quick_looks(monkeypatch):
    """The kubelet's books are looked at more often."""
    monkeypatch.setattr(plugins, "PERIOD_SECONDS", 0.1)
    monkeypatch.setattr("agent.registration.SETTLE_SECONDS", 0.2)


@pytest.mark.usefixtures("quick_looks")
async def test_a_name_that_another_plugin_took_is_registered_again():
    async with served(card(0), card(1)) as (node, kubelet):
        other = OtherPlugin(node.root / "device-plugins", "other.sock", ["other-0"])
        await other.start(NAME)
        await kubelet.until(lambda: len(kubelet.registrations[NAME]) >= 3)
        await kubelet.until_offered(NAME)
        assert kubelet.devices[NAME].keys() == set(ids(0, *range(8)))
        assert len(kubelet.registrations["nvidia.com/gpu-1"]) == 1
        await other.stop()


REFUSED = {
    "names GPU 0 (GPU-0)": {"card_names": False},
    "CDI is off in containerd://1.7.27": {
        "cdi_enabled": False,
        "runtime": b'{"version":"containerd://1.7.27","cdi":false}',
    },
    "give --runtime-file": {"cdi_enabled": False},
    "put the library of limiter hami-core there": {"library": False},
}


@pytest.mark.parametrize("said", REFUSED)
async def test_nothing_is_registered_while_the_node_lacks_something(said, tmp_path):
    options = {"card_names": True, "library": True, "runtime": b"", **REFUSED[said]}
    runtime = tmp_path / "runtime"
    runtime.write_bytes(options.pop("runtime"))
    has_names, has_library = options.pop("card_names"), options.pop("library")
    with node_folder(runtime_file=str(runtime), **options) as node:
        node.write_gpus(card(0))
        if has_names:
            node.write_card_names("GPU-0")
        if not has_library:
            (node.root / "state" / "library" / "libvgpu.so").unlink()
        async with kubelet_in(node.root) as kubelet, running(node) as process:
            await until(lambda: process.state is not None and process.state._registrations)
            answer = await ready(process)
            assert answer.status_code == 503
            assert said in answer.text
            assert kubelet.registrations == {}


class Refusing(FakeKubelet):
    """Takes no plugin."""

    async def Register(self, request, context):  # noqa: N802 - the interface's name
        self.registrations.setdefault(request.resource_name, []).append(request.endpoint)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the ResourceName is invalid")


class Silent(FakeKubelet):
    """Takes a plugin, and asks for its devices at the second time alone."""

    async def Register(self, request, context):  # noqa: N802 - the interface's name
        if request.resource_name in self.registrations:
            return await super().Register(request, context)
        self.registrations[request.resource_name] = [request.endpoint]
        return api.Empty()


async def test_a_kubelet_that_takes_a_name_and_is_silent_then_is_asked_again(monkeypatch):
    monkeypatch.setattr("agent.registration.STREAM_SECONDS", 0.2)
    with node_folder() as node:
        node.write_gpus(card(0))
        node.write_card_names("GPU-0")
        kubelet = Silent(node.root)
        await kubelet.start()
        async with running(node):
            await kubelet.until_offered(NAME)
        assert len(kubelet.registrations[NAME]) == 2
        await kubelet.stop()


async def test_the_log_says_once_why_nothing_is_registered(capfd):
    with node_folder() as node:
        node.write_gpus(card(0))
        node.write_card_names("GPU-0")
        async with running(node) as process:
            await until(lambda: process.state is not None and "away" in process.state.missing)
            kubelet = Refusing(node.root)
            await kubelet.start()
            await until(lambda: len(kubelet.registrations.get(NAME, ())) >= 3)
            await kubelet.stop()
    lines = capfd.readouterr().err.splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]  # gRPC writes lines of its own
    reasons = [line["reason"] for line in said if line["event"] == "not registered"]
    assert reasons[:2] == [
        "the kubelet is away: its socket is not there",
        "the kubelet does not register it: the ResourceName is invalid",
    ]
    assert reasons.count(reasons[1]) == 1


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
        await until(lambda: process.state is not None and process.state._registrations)
        assert "another agent runs on this node" in (await ready(process)).text
        assert len(kubelet.registrations[NAME]) == 1
        await first.aclose()
        await until(lambda: process.state.missing is None)
        assert len(kubelet.registrations[NAME]) == 2


async def test_a_long_name_of_a_resource_fits_into_the_path_of_a_socket_on_microk8s():
    long = "a-long-name-of-a-company.example.com/a-long-name-of-its-shared-gpus-{index}"
    folder, most = "/var/snap/microk8s/common/var/lib/kubelet/device-plugins/", 107
    policy = msgspec.structs.replace(PER_GPU, resource=long)
    async with node_with(card(0)) as (node, kubelet), running(node, policy):
        await kubelet.until_offered(long.replace("{index}", "0"))
        [[socket]] = kubelet.registrations.values()
        assert len(folder + socket) <= most
