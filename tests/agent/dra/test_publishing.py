"""The ResourceSlice of a node, as an API server keeps it."""

from dataclasses import replace

from agent.dra.resource_slice import slice_name
from kube.dra import DRIVER
from testbed.nvidia.cards import Xid
from tests.agent.support.dra import (
    NODE,
    OTHER,
    TIME,
    ApiServer,
    DraKubelet,
    dra_node,
    offered,
    slice_of_nvidia,
)
from tests.agent.support.node import card, ids, running, until, until_says

OURS = slice_name(NODE)


async def test_every_card_is_a_device_of_a_million_shares_with_its_usable_memory_and_nvidias_attributes():
    cards = card(0, 40960, reserved_mib=583), replace(card(1, 81920), minor=5)
    async with dra_node(*cards) as (node, _, server):
        node.write_numa_node(cards[0], 1)
        async with running(node, api=server):
            await until(lambda: server.devices)
    assert server.slices[OURS]["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    spec = {"driver": DRIVER, "nodeName": NODE}
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    devices = list(server.devices.values())
    assert server.slices[OURS]["spec"] == {**spec, "pool": pool, "devices": devices}
    policy = {"default": "1M", "validRange": {"min": "1", "step": "1"}}
    assert devices[0] == {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "capacity": {"share": {"value": "1M", "requestPolicy": policy}},
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": "GPU-0"},
            "productName": {"string": "NVIDIA A100"},
            "memoryMiB": {"int": 40377},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "595.71.5"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:10:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 1},
        },
    }
    assert devices[1]["name"] == "gpu-5"
    assert devices[1]["attributes"]["memoryMiB"] == {"int": 81920}


async def test_no_card_is_published_before_the_kubelet_said_what_device_plugins_offer():
    async with dra_node(card(0), card(1)) as (node, kubelet, server):
        kubelet.lists = False
        kubelet.devices["nvidia.com/gpu"] = {"GPU-1": "Healthy"}
        async with running(node, api=server) as process:
            await DraKubelet(node).register()
            await until_says(process, "the kubelet has not reported its allocations")
            assert not server.writes
            kubelet.lists = True
            await until(lambda: server.devices)
            assert [[device["name"] for device in each["spec"]["devices"]] for each in server.writes] == [
                ["gpu-0"]
            ]
            kubelet.lists = False  # what it said before holds on
            node.write_gpus(card(0, lost=True), card(1))
            await until(lambda: "taints" in server.devices["gpu-0"])
            assert server.devices["gpu-0"]["taints"][0]["key"] == f"{DRIVER}/gpu-lost"


async def test_an_unhealthy_card_is_tainted_until_it_is_well_and_refused_meanwhile():
    async with offered(card(0), card(1)) as (node, kubelet, server):
        server.add_claim({"share": "25k"})
        server.add_claim({"share": "25k"}, name="second", uid=OTHER, pod="another-pod")
        await kubelet.prepare()
        node.write_gpus(card(0), card(1), events=(Xid("GPU-0", 79),))
        await until(lambda: "taints" in server.devices["gpu-0"])
        taint = {"key": f"{DRIVER}/xid", "value": "79", "effect": "NoSchedule", "timeAdded": TIME}
        assert server.devices["gpu-0"]["taints"] == [taint]
        assert "taints" not in server.devices["gpu-1"]
        assert server.slices[OURS]["spec"]["pool"]["generation"] == 2
        assert not (await kubelet.prepare()).error
        assert "gpu-0 is unhealthy (Xid 79)" in (await kubelet.prepare("second", OTHER)).error


async def test_a_cordoned_card_is_tainted_by_its_number_and_still_prepared_for_pods_that_have_it():
    async with offered(replace(card(0), minor=3), card(1)) as (_, kubelet, server):
        server.cordon = "3"
        await until(lambda: "taints" in server.devices["gpu-3"])
        assert [each["key"] for each in server.devices["gpu-3"]["taints"]] == [f"{DRIVER}/cordoned"]
        assert "taints" not in server.devices["gpu-1"]
        server.add_claim({"device": "gpu-3", "share": "500k"})
        assert not (await kubelet.prepare()).error
        server.cordon = ""
        await until(lambda: "taints" not in server.devices["gpu-3"])


async def test_where_taints_are_dropped_an_unhealthy_card_is_left_out():
    async with offered(card(0), card(1)) as (node, _, server):
        server.dropped = {"taints"}
        node.write_gpus(card(0, lost=True), card(1))
        await until(lambda: list(server.devices) == ["gpu-1"])
        node.write_gpus(card(0), card(1))
        await until(lambda: list(server.devices) == ["gpu-0", "gpu-1"])


async def test_an_api_server_that_drops_shares_is_named_until_its_feature_gate_is_on():
    async with dra_node(card(0)) as (node, _, server):
        server.dropped = {"allowMultipleAllocations"}
        async with running(node, api=server) as process:
            await DraKubelet(node).register()
            await until_says(process, "DRAConsumableCapacity")
            server.dropped.clear()
            await until_says(process, None)


async def test_a_slice_that_is_removed_or_changed_is_written_again_and_one_that_is_right_is_left():
    async with offered(card(0)) as (_, _, server):
        server.slices.clear()
        await until(lambda: server.devices)
        server.slices[OURS]["spec"]["devices"][0]["capacity"]["share"]["value"] = "2M"
        await until(lambda: server.devices["gpu-0"]["capacity"]["share"]["value"] == "1M")
        pool = {"name": NODE, "generation": 9}
        spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": []}
        server.slices["stale"] = {"metadata": {"name": "stale", "resourceVersion": "0"}, "spec": spec}
        await until(lambda: list(server.slices) == [OURS])
        await until(lambda: server.slices[OURS]["spec"]["pool"]["generation"] == 10)
    writes = len(server.writes)
    async with offered(card(0), server=server):
        assert len(server.writes) == writes
        server.dropped = {"attributes"}
        server.slices.clear()
        await until(lambda: server.devices)
        writes, looks = len(server.writes), server.looks
        await until(lambda: server.looks > looks + 6)
        assert len(server.writes) == writes  # what the API server drops is no reason to write again


async def test_a_card_that_another_driver_offers_is_left_out_until_that_one_is_gone():
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-0"}}}
    server = ApiServer(nvidia=slice_of_nvidia(device))
    async with offered(card(0), card(1), server=server) as (_, kubelet, _):
        assert list(server.devices) == ["gpu-1"]
        server.add_claim({"share": "25k"})
        assert "DRA driver gpu.nvidia.com, as gpu-0 offers it too" in (await kubelet.prepare()).error
        server.slices.pop("nvidia")
        await until(lambda: list(server.devices) == ["gpu-0", "gpu-1"])


async def test_a_card_that_a_device_plugin_offers_or_that_a_pod_has_from_one_is_left_out():
    async with dra_node(card(0), card(1), card(2)) as (node, kubelet, server):
        kubelet.held["old", "main"] = {"nvidia.com/gpu-0": ids(0, 3)}
        kubelet.devices["nvidia.com/gpu"] = {"GPU-1": "Healthy"}
        async with running(node, api=server) as process:
            await until(lambda: server.devices)
            assert list(server.devices) == ["gpu-2"]
            assert "pod default/old holds it as nvidia.com/gpu-0" in process.state.elsewhere["GPU-0"]
            kubelet.held.clear()
            kubelet.devices.clear()
            await until(lambda: len(server.devices) == 3)
