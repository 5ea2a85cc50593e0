"""A card that another device plugin offers too is given to no new pod."""

import asyncio

import grpc
import pytest

from agent import ownership, plugins
from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.kubernetes.other_drivers import OtherDrivers
from agent.kubernetes.resource_slices import ResourceSlices
from agent.other_plugins import OfferedCards
from agent.plugins import DevicePlugins
from tests.agent.support.dra import NODE, ApiServer, slice_of_nvidia
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids, node_folder, node_with, running, served, until
from tests.agent.support.other_plugin import OtherPlugin

OURS = ["nvidia.com/gpu-0", "nvidia.com/gpu-1"]
GPUS = [Gpu(0, "GPU-ab-1", "A100", 40960, minor=1), Gpu(1, "GPU-ab-12", "A100", 40960, minor=0)]
WHY = (
    "another device plugin offers it too, as nvidia.com/gpu: keep it from that plugin, or leave it out of"
    " agent.divide"
)
HELD = "pod default/train holds it as nvidia.com/gpu: its slices are offered when that pod has ended"


@pytest.mark.parametrize(
    ("counted", "found"),
    [
        ({}, {}),
        ({"nvidia.com/gpu-0": ["GPU-ab-1::0"], "nvidia.com/gpu-1": ["GPU-ab-12::7"]}, {}),
        ({"nvidia.com/gpu": ["GPU-ab-1"]}, {"GPU-ab-1": "nvidia.com/gpu"}),
        ({"nvidia.com/gpu": ["GPU-ab-12::0", "GPU-ab-12::1"]}, {"GPU-ab-12": "nvidia.com/gpu"}),
        ({"nvidia.com/gpu": ["GPU-ab-1-0"]}, {"GPU-ab-1": "nvidia.com/gpu"}),
        ({"nvidia.com/gpu": ["GPU-ab-123", "GPU-ab", "", "0"]}, {}),
        ({"nvidia.com/gpu": ["nvidia0", "nvidia7"]}, {"GPU-ab-12": "nvidia.com/gpu"}),
        ({"nvidia.com/gpu": ["nvidia1/vgpu0", "nvidia1/vgpu1"]}, {"GPU-ab-1": "nvidia.com/gpu"}),
        ({"nvidia.com/gpu": ["nvidia10", "nvidia1x", "nvidia"]}, {}),
        ({"nvidia.com/mig-1g.10gb": ["MIG-ab-1"]}, {}),
        (
            {"b.example/gpu": ["GPU-ab-1"], "a.example/gpu": ["GPU-ab-1"]},
            {"GPU-ab-1": "a.example/gpu"},
        ),
    ],
)
def test_a_card_is_known_by_its_uuid_or_minor_number_at_the_front_of_others_device_ids(counted, found):
    assert OfferedCards(GPUS).offered_elsewhere(counted, OURS) == found


@pytest.mark.parametrize(
    ("resource", "device", "found"),
    [
        ("nvidia.com/gpu", "GPU-ab-1", {"GPU-ab-1": ("team/train", "nvidia.com/gpu")}),
        ("nvidia.com/gpu", "GPU-ab-12::3", {"GPU-ab-12": ("team/train", "nvidia.com/gpu")}),
        ("nvidia.com/gpu-0", "GPU-ab-1::3", {}),
        ("nvidia.com/gpu-0", "GPU-ab-1", {"GPU-ab-1": ("team/train", "nvidia.com/gpu-0")}),
        ("nvidia.com/gpu", "nvidia0/vgpu3", {"GPU-ab-12": ("team/train", "nvidia.com/gpu")}),
        ("nvidia.com/gpu", "MIG-ab-1", {}),
        ("example.com/nic", "0", {}),
    ],
)
def test_a_card_that_another_plugin_gave_to_a_pod_is_held(resource, device, found):
    holder = Holder("team", "train", "main", ((resource, (device,)),))
    assert OfferedCards(GPUS).held_elsewhere([holder], OURS) == found


@pytest.mark.parametrize(
    ("resource", "device", "is_found"),
    [
        ("nvidia.com/gpu", "0", True),
        ("nvidia.com/gpu.shared", "gpu0::1", True),
        ("nvidia.com/mig-1g.10gb", "7", True),
        ("clear.ml/fraction-1", "0-1", True),
        ("volcano.sh/vgpu-number", "0", True),
        ("nvidia.com/gpu", "GPU-other-card::3", False),
        ("nvidia.com/mig-1g.10gb", "MIG-other", False),
        ("nvidia.com/gpu", "nvidia7/vgpu0", False),
        ("nvidia.com/gpu-0", "0", False),
        ("nvidia.com/hostdev", "0000:3b:00.2", False),
        ("example.com/nic", "0", False),
        ("example.com/gpus", "0", False),
    ],
)
def test_a_gpu_plugin_whose_device_ids_name_no_card_is_found(resource, device, is_found):
    named = (resource, device) if is_found else None
    devices = [("nvidia.com/gpu", "GPU-ab-1"), (resource, device)]
    assert OfferedCards(GPUS).nameless(devices, OURS) == named


def test_minor_numbers_name_no_card_while_the_driver_does_not_state_all():
    cards = OfferedCards([GPUS[0], Gpu(1, "GPU-ab-12", "A100", 40960)])
    assert cards.nameless([("nvidia.com/gpu", "nvidia7")], OURS) == ("nvidia.com/gpu", "nvidia7")
    assert cards.nameless([("nvidia.com/gpu", "nvidia1")], OURS) is None


@pytest.fixture
def quick_looks(monkeypatch):
    """The kubelet's books are looked at more often."""
    monkeypatch.setattr(ownership, "PERIOD_SECONDS", 0.1)


@pytest.mark.usefixtures("quick_looks")
async def test_a_card_is_withdrawn_for_as_long_as_another_plugin_offers_it(capfd):
    async with served(card(0), card(1)) as (node, kubelet):
        other = OtherPlugin(node.root / "device-plugins", "nvidia.sock", ["GPU-1"])
        await other.start("nvidia.com/gpu")
        await kubelet.until(lambda: set(kubelet.devices["nvidia.com/gpu-1"].values()) == {"Unhealthy"})
        assert set(kubelet.devices["nvidia.com/gpu-0"].values()) == {"Healthy"}
        with pytest.raises(grpc.aio.AioRpcError, match="another device plugin offers it too"):
            await kubelet.allocate("nvidia.com/gpu-1", *ids(1, 0))
        await other.stop()
        await kubelet.until_offered("nvidia.com/gpu-1")
    log = capfd.readouterr().err
    assert log.count("GPU is offered twice: it gets no new pods") == 1
    assert WHY in log
    assert "GPU is offered again: no other plugin has it" in log


async def test_an_agent_that_starts_next_to_another_plugin_never_offers_its_card():
    async with node_with(card(0), card(1)) as (node, kubelet):
        other = OtherPlugin(node.root / "device-plugins", "nvidia.sock", ["GPU-0::0", "GPU-0::1"])
        await other.start("nvidia.com/gpu")
        await kubelet.until(lambda: kubelet.devices.get("nvidia.com/gpu"))
        async with running(node) as process:
            await kubelet.until_offered("nvidia.com/gpu-1")
            await kubelet.until(lambda: "nvidia.com/gpu-0" in kubelet.first_devices)
            assert set(kubelet.first_devices["nvidia.com/gpu-0"].values()) == {"Unhealthy"}
            assert process.state.unhealthy == {"GPU-0": WHY}
        await other.stop()


@pytest.mark.usefixtures("quick_looks")
async def test_a_card_that_a_pod_holds_of_a_plugin_that_left_is_offered_when_the_pod_has_ended(capfd):
    async with node_with(card(0), card(1)) as (node, kubelet):
        kubelet.held["train", "main"] = {"nvidia.com/gpu": ["GPU-0"]}
        async with running(node) as process:
            await kubelet.until_offered("nvidia.com/gpu-1")
            await kubelet.until(lambda: "nvidia.com/gpu-0" in kubelet.first_devices)
            assert set(kubelet.first_devices["nvidia.com/gpu-0"].values()) == {"Unhealthy"}
            assert process.state.unhealthy == {"GPU-0": HELD}
            kubelet.held.clear()
            await kubelet.until_offered("nvidia.com/gpu-0")
    log = capfd.readouterr().err
    assert log.count("GPU is held under another name: it gets no new pods") == 1
    assert "GPU is offered again: no other plugin has it" in log


@pytest.mark.usefixtures("quick_looks")
async def test_a_card_that_stays_whole_is_the_other_plugins():
    with node_folder(divide=("1",)) as node:
        node.write_gpus(card(0), card(1))
        node.write_card_names("GPU-1")
        async with kubelet_in(node.root) as kubelet:
            other = OtherPlugin(node.root / "device-plugins", "nvidia.sock", ["GPU-0"])
            await other.start("nvidia.com/gpu")
            await kubelet.until(lambda: kubelet.devices.get("nvidia.com/gpu"))
            async with running(node) as process:
                await kubelet.until_offered("nvidia.com/gpu-1")
                looked = kubelet.looks
                await until(lambda: kubelet.looks >= looked + 3)
                assert process.state.unhealthy == {}
                assert kubelet.devices.keys() == {"nvidia.com/gpu", "nvidia.com/gpu-1"}
            await other.stop()


@pytest.mark.parametrize(
    "named", [{"uuid": {"string": "GPU-0"}}, {"pciBusID": {"string": card(0).bus}}], ids=["uuid", "bus"]
)
async def test_a_card_that_a_dra_driver_offers_is_withdrawn_for_as_long_as_it_does(monkeypatch, named):
    monkeypatch.setattr(plugins, "DRIVERS_SECONDS", 0.1)
    server = ApiServer()
    server.slices["nvidia"] = slice_of_nvidia({"name": "gpu-0", "attributes": named})
    with node_folder() as node:
        node.write_gpus(card(0), card(1))
        node.write_card_names("GPU-0", "GPU-1")
        slices = ResourceSlices(server, NODE)

        def offering(agent, preparation):
            return DevicePlugins(agent, preparation, OtherDrivers(slices, agent).look)

        async with kubelet_in(node.root) as kubelet, running(node, offering=offering) as process:
            await kubelet.until_offered("nvidia.com/gpu-1")
            await kubelet.until(lambda: "nvidia.com/gpu-0" in kubelet.first_devices)
            assert set(kubelet.first_devices["nvidia.com/gpu-0"].values()) == {"Unhealthy"}
            assert "DRA driver gpu.nvidia.com, as gpu-0 offers it too" in process.state.unhealthy["GPU-0"]
            server.is_away = True
            looks = server.looks
            await until(lambda: server.refused >= 2)
            assert (server.looks, list(process.state.unhealthy)) == (looks, ["GPU-0"])
            server.slices.clear()
            server.is_away = False
            await kubelet.until_offered("nvidia.com/gpu-0")


NAMELESS = (
    'nvidia.com/gpu is of another device plugin, whose device IDs such as "0" name no card: keep that plugin'
    " from this node, or, if it offers other cards only, list the resource in agent.trustedResources"
)


@pytest.mark.usefixtures("quick_looks")
def test_next_to_a_plugin_whose_device_ids_name_no_card_nothing_is_offered_unless_it_is_trusted(capfd):
    async def offer(trusted):
        async with node_with(card(0), card(1), trusted_resources=trusted) as (node, kubelet):
            other = OtherPlugin(node.root / "device-plugins", "theirs.sock", ["0"])
            await other.start("nvidia.com/gpu")
            await kubelet.until(lambda: kubelet.devices.get("nvidia.com/gpu"))
            async with running(node) as process:
                await kubelet.until(lambda: len(kubelet.first_devices) == 3)
                if not trusted:
                    assert process.state.unhealthy == {"GPU-0": NAMELESS, "GPU-1": NAMELESS}
                    await other.stop()
                await kubelet.until_offered("nvidia.com/gpu-0")
                await kubelet.until_offered("nvidia.com/gpu-1")
            if trusted:
                await other.stop()

    asyncio.run(offer(()))
    assert capfd.readouterr().err.count("GPU may be offered twice: it gets no new pods") == 2
    asyncio.run(offer(("nvidia.com/gpu",)))
    assert "offered twice" not in capfd.readouterr().err
