"""A card that another device plugin offers too is given to no new pod."""

from unittest import mock

import grpc
import pytest

from agent import plugins
from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.kubernetes.api_server import ApiServerError
from agent.other_plugins import OtherPlugins, found_elsewhere
from tests.agent.support.dra import NODE, ApiServer, slice_of_nvidia
from tests.agent.support.node import agent_with, card, ids, node_with, running, served, until

OURS = ["nvidia.com/gpu-0", "nvidia.com/gpu-1"]
GPUS = [Gpu(0, "GPU-ab-1", "A100", 40960, minor=1), Gpu(1, "GPU-ab-12", "A100", 40960, minor=0)]
WHY = (
    "another device plugin offers it too, as nvidia.com/gpu: keep it from that plugin, or leave it out of"
    " agent.divide"
)
NAMELESS = (
    '{} is of another device plugin, whose device IDs such as "{}" name no card: have it name cards by UUID,'
    " or keep it from this node"
)
HELD = "pod default/train holds it as nvidia.com/gpu: its slices are offered when that pod has ended"


AT = "nvidia.com/gpu"


def found(counted, held=()):
    """What is withdrawn, by UUID, where the kubelet counts and a pod holds devices of these resources."""
    holder = Holder("team", "train", "main", tuple((resource, (device,)) for resource, device in held))
    return found_elsewhere(GPUS, OURS, counted, [holder])


@pytest.mark.parametrize(
    ("counted", "uuid", "resource"),
    [
        ({}, None, None),
        ({"nvidia.com/gpu-0": ["GPU-ab-1::0"], "nvidia.com/gpu-1": ["GPU-ab-12::7"]}, None, None),
        ({AT: ["GPU-ab-1"]}, "GPU-ab-1", AT),
        ({AT: ["GPU-ab-12::0", "GPU-ab-12::1"]}, "GPU-ab-12", AT),
        ({AT: ["GPU-ab-1-0"]}, "GPU-ab-1", AT),
        ({AT: ["GPU-ab-123"]}, None, None),
        # GKE's own plugin: a card, and parts of one by time sharing and by MIG.
        ({AT: ["nvidia0", "nvidia7"]}, "GPU-ab-12", AT),
        ({AT: ["nvidia1/vgpu0", "nvidia1/vgpu3"]}, "GPU-ab-1", AT),
        ({AT: ["nvidia10", "nvidia7/gi0"]}, None, None),
        ({"nvidia.com/mig-1g.10gb": ["MIG-ab-1"]}, None, None),
        ({"b.example/gpu": ["GPU-ab-1"], "a.example/gpu": ["GPU-ab-1"]}, "GPU-ab-1", "a.example/gpu"),
    ],
)
def test_a_card_is_known_by_its_uuid_or_number_at_the_front_of_others_device_ids(counted, uuid, resource):
    assert found(counted) == ({uuid: WHY.replace(AT, resource)} if uuid is not None else {})


@pytest.mark.parametrize(
    ("resource", "device", "uuid"),
    [
        (AT, "GPU-ab-12::3", "GPU-ab-12"),
        (AT, "nvidia0/vgpu3", "GPU-ab-12"),
        ("nvidia.com/gpu-0", "GPU-ab-1::3", None),
        ("nvidia.com/gpu-0", "GPU-ab-1", "GPU-ab-1"),
        (AT, "MIG-ab-1", None),
    ],
)
def test_a_card_that_another_plugin_gave_to_a_pod_is_held(resource, device, uuid):
    why = HELD.replace("default/", "team/").replace(AT, resource)
    assert found({}, [(resource, device)]) == ({uuid: why} if uuid is not None else {})


@pytest.mark.parametrize(
    ("resource", "device", "is_nameless"),
    [
        (AT, "0", True),
        ("nvidia.com/gpu.shared", "gpu0::1", True),
        ("nvidia.com/mig-1g.10gb", "7", True),
        ("clear.ml/fraction-1", "0-1", True),
        ("volcano.sh/vgpu-number", "0", True),
        (AT, "nvidia1x", True),
        (AT, "GPU-other-card::3", False),
        ("nvidia.com/gpu-0", "0", False),
        ("nvidia.com/hostdev", "0000:3b:00.2", False),
        ("example.com/gpus", "0", False),
    ],
)
def test_next_to_a_gpu_plugin_whose_ids_name_no_card_every_card_is_withdrawn(resource, device, is_nameless):
    reasons = found({AT: ["GPU-ab-1"]}, [(resource, device)])
    why = NAMELESS.format(resource, device) if is_nameless else None
    assert (reasons["GPU-ab-1"], reasons.get("GPU-ab-12")) == (WHY, why)


def test_numbers_name_no_card_while_the_driver_does_not_state_all():
    gpus = [GPUS[0], Gpu(1, "GPU-ab-12", "A100", 40960)]
    assert list(found_elsewhere(gpus, OURS, {AT: ["nvidia1"]}, ())) == ["GPU-ab-1"]
    assert len(found_elsewhere(gpus, OURS, {AT: ["nvidia7"]}, ())) == len(gpus)


async def test_an_api_server_that_serves_no_slices_withdraws_nothing():
    agent = agent_with(GPUS)
    slices = mock.Mock(others=mock.Mock(side_effect=ApiServerError("the API server answered 404", 404)))
    await OtherPlugins(agent, OURS).look_at_drivers(slices)
    assert agent.state.elsewhere == {}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The kubelet's books, and DRA drivers, are looked at more often."""
    monkeypatch.setattr(plugins, "PERIOD_SECONDS", 0.1)
    monkeypatch.setattr(plugins, "DRIVERS_SECONDS", 0.1)


async def test_a_card_is_withdrawn_for_as_long_as_another_plugin_offers_it(capfd):
    async with served(card(0), card(1)) as (_, kubelet):
        kubelet.devices[AT] = {"GPU-1": "Healthy"}
        await kubelet.until_offered("nvidia.com/gpu-1", 0)
        assert set(kubelet.devices["nvidia.com/gpu-0"].values()) == {"Healthy"}
        with pytest.raises(grpc.aio.AioRpcError, match="another device plugin offers it too"):
            await kubelet.allocate("nvidia.com/gpu-1", *ids(1, 0))
        del kubelet.devices[AT]
        await kubelet.until_offered("nvidia.com/gpu-1")
    log = capfd.readouterr().err
    assert log.count("GPU gets no new pods: another plugin has it") == 1
    assert WHY in log
    assert "GPU is offered again: no other plugin has it" in log


@pytest.mark.parametrize(
    ("counted", "held", "why"),
    [({AT: {"GPU-0::0": "Healthy"}}, {}, WHY), ({}, {("train", "main"): {AT: ["GPU-0"]}}, HELD)],
    ids=["offers", "gave to a pod before it left"],
)
async def test_an_agent_that_starts_offers_no_card_that_another_plugin(counted, held, why):
    async with node_with(card(0), card(1)) as (node, kubelet):
        kubelet.devices, kubelet.held = dict(counted), held
        async with running(node) as process:
            await kubelet.until_offered("nvidia.com/gpu-1")
            assert await kubelet.until_first_offered("nvidia.com/gpu-0") == 0
            assert process.state.unhealthy == {"GPU-0": why}
            kubelet.held = {}
            kubelet.devices.pop(AT, None)
            await kubelet.until_offered("nvidia.com/gpu-0")


@pytest.mark.parametrize(
    "named", [{"uuid": {"string": "GPU-0"}}, {"pciBusID": {"string": card(0).bus}}], ids=["uuid", "bus"]
)
async def test_a_card_that_a_dra_driver_offers_is_withdrawn_for_as_long_as_it_does(named):
    server = ApiServer(nvidia=slice_of_nvidia({"name": "gpu-0", "attributes": named}))
    async with (
        node_with(card(0), card(1), node=NODE) as (node, kubelet),
        running(node, api=server) as process,
    ):
        await kubelet.until_offered("nvidia.com/gpu-1")
        assert await kubelet.until_first_offered("nvidia.com/gpu-0") == 0
        assert "DRA driver gpu.nvidia.com, as gpu-0 offers it too" in process.state.unhealthy["GPU-0"]
        server.is_away = True
        looks = server.looks
        await until(lambda: server.refused >= 2)
        assert (server.looks, list(process.state.unhealthy)) == (looks, ["GPU-0"])
        server.slices.clear()
        server.is_away = False
        await kubelet.until_offered("nvidia.com/gpu-0")
