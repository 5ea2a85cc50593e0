"""The agent as a DRA driver, as a kubelet and an API server meet it."""

import asyncio
import json
import threading
from dataclasses import replace

import msgspec
import pytest

from agent.dra.specifications import ClaimSpecifications
from agent.files import BOOT_ID
from kube.dra import DRIVER
from tests.agent.support.dra import NODE, OTHER, UID, DraKubelet, claim_file, dra_node, offered, registered
from tests.agent.support.kubelet import PATIENCE_S
from tests.agent.support.node import HAMI, PER_GPU, card, ready, running, until, until_says


async def test_the_kubelet_finds_the_driver_by_its_socket_in_the_registry():
    async with dra_node(card(0)) as (node, _, server):
        async with running(node, api=server) as process:
            await until(lambda: server.devices)
            assert "not registered with the kubelet yet" in (await ready(process)).text
            kubelet = DraKubelet(node)
            await kubelet.register()
            await until_says(process, None)
            (node.root / "plugins_registry" / f"{DRIVER}-reg.sock").unlink()
            await kubelet.register()
        assert (kubelet.info.type, kubelet.info.name) == ("DRAPlugin", DRIVER)
        assert kubelet.info.endpoint == f"{node.root}/plugins/{DRIVER}/dra.sock"
        assert list(kubelet.info.supported_versions) == ["v1.DRAPlugin"]
        assert not [*node.root.glob("plugins_registry/*"), *node.root.glob("plugins/*/*")]
        assert server.devices, "a driver that ends leaves its slice"


async def test_a_share_is_the_card_and_exactly_its_limit():
    async with offered(card(0), card(1, 81920, reserved_mib=361)) as (node, kubelet, server):
        server.add_claim({"device": "gpu-1", "share": "17546", "request": "gpu/m81920"})
        [device] = (await kubelet.prepare()).devices
        assert list(device.request_names) == ["gpu"]
        assert (device.pool_name, device.device_name, device.share_id) == (NODE, "gpu-1", "share-1")
        assert list(device.cdi_device_ids) == ["nvidia.com/gpu=GPU-1", f"clearml-injector.io/claim={UID}-0"]
        edits = claim_file(node)[f"{UID}-0"]
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=1431m" in edits["env"]  # of 1431.04
        assert "CUDA_DEVICE_MEMORY_LIMIT_1=1431m" in edits["env"]
        paths = {each["containerPath"] for each in edits["mounts"]}
        assert paths == {"/usr/local/vgpu", "/etc/ld.so.preload", "/cache"}


SETS_NOTHING = msgspec.structs.replace(HAMI, env=(), preload=None, cache_path=None)


@pytest.mark.parametrize(
    ("claim", "limiter"),
    [({}, HAMI), ({"share": "250k"}, SETS_NOTHING)],
    ids=["a whole card", "a part under a limiter that sets nothing"],
)
async def test_no_limit_has(claim, limiter):
    policy = msgspec.structs.replace(PER_GPU, limiter=limiter)
    async with offered(card(0), policy=policy) as (node, kubelet, server):
        server.add_claim(claim)
        answer = await kubelet.prepare()
        assert [list(each.cdi_device_ids) for each in answer.devices] == [["nvidia.com/gpu=GPU-0"]]
        assert not claim_file(node)
        refused = await kubelet.prepare("gone", OTHER)
        assert ("does not exist" in refused.error, list(refused.devices)) == (True, [])
        assert not (node.cdi / f"clearml-injector.io-claim-{OTHER}.json").exists()


async def test_several_cards_have_a_limit_each_and_different_ones_stop_a_container_that_would_have_both():
    async with offered(card(0), card(1)) as (node, kubelet, server):
        server.add_claim({"share": "250k"}, {"device": "gpu-1", "share": "250k"})
        assert [each.device_name for each in (await kubelet.prepare()).devices] == ["gpu-0", "gpu-1"]
        assert set(claim_file(node)) == {f"{UID}-0", f"{UID}-1"}
        assert all("hooks" not in each for each in claim_file(node).values())
        server.add_claim(
            {"share": "250k", "request": "gpu-0"},
            {"device": "gpu-1", "share": "500k", "request": "gpu-1"},
            {"device": "gpu-1", "request": "gpu-2"},
        )
        answer = await kubelet.prepare()
        assert [list(each.request_names) for each in answer.devices] == [["gpu-0"], ["gpu-1"], ["gpu-2"]]
        limit = "CUDA_DEVICE_MEMORY_LIMIT_0"
        hooks = [each["hooks"][0]["args"][-2:] for each in claim_file(node).values()]
        assert hooks == [[limit, "10240m"], [limit, "20480m"]]


async def test_two_claims_of_one_pod_have_equal_amounts():
    async with offered(card(0), card(1)) as (_, kubelet, server):
        server.add_claim({"share": "25k"})
        server.add_claim({"device": "gpu-1", "share": "50k"}, name="second", uid=OTHER)
        assert not (await kubelet.prepare()).error
        refused = await kubelet.prepare("second", OTHER)
        assert "write both requests into one ResourceClaim" in refused.error
        server.add_claim({"device": "gpu-1", "share": "50k"}, name="second", uid=OTHER, pod="another-pod")
        assert not (await kubelet.prepare("second", OTHER)).error


async def test_prepare_and_unprepare_may_be_repeated_and_a_restart_writes_what_is_prepared():
    async with dra_node(card(0)) as (node, _, server):
        server.add_claim({"share": "25k"})
        file = node.cdi / f"clearml-injector.io-claim-{UID}.json"
        async with registered(node, server) as kubelet:
            first, second = [await kubelet.prepare() for _ in range(2)]
            assert first == second
            before = claim_file(node)
            file.unlink()
            await kubelet.prepare()
            assert claim_file(node) == before
        file.unlink()
        async with registered(node, server) as kubelet:
            assert claim_file(node) == before
            for _ in range(2):
                assert not await kubelet.unprepare()
                assert not claim_file(node)
        assert json.loads((node.root / "state/private/claims.json").read_text())["content"]["claims"] == {}


async def test_a_restart_of_the_node_ends_what_is_unknown():
    async with dra_node(card(0)) as (node, _, server):
        boot = node.root / "proc" / BOOT_ID
        boot.parent.mkdir(parents=True)
        boot.write_text("boot-1")
        server.add_claim({"share": "25k"})
        async with registered(node, server) as kubelet:
            await kubelet.prepare()
        file = node.cdi / f"clearml-injector.io-claim-{OTHER}.json"
        file.touch()
        async with registered(node, server):
            assert file.exists()
        boot.write_text("boot-2")
        async with registered(node, server):
            assert claim_file(node)
            assert not file.exists()


async def test_a_lost_file_of_claims_leaves_the_cdi_devices_of_pods_through_every_restart():
    async with dra_node(card(0)) as (node, _, server):
        server.add_claim({"share": "25k"})
        server.add_claim({"share": "25k"}, name="other", uid=OTHER, pod="another-pod")
        async with registered(node, server) as kubelet:
            await kubelet.prepare()
        (node.root / "state/private/claims.json").unlink()
        async with registered(node, server) as kubelet:
            assert claim_file(node)
            await kubelet.prepare("other", OTHER)
        async with registered(node, server) as kubelet:
            assert claim_file(node)
            await kubelet.unprepare()
            assert not claim_file(node)
        async with registered(node, server):
            assert claim_file(node, OTHER)


async def test_what_is_written_again_is_written_in_a_thread_and_never_after_it_was_removed(monkeypatch):
    write, writers, may_write = ClaimSpecifications.write, [], threading.Event()

    def slow_write(specifications, uid, claim):
        writers.append(threading.current_thread())
        if writers[-1] is not threading.main_thread():
            may_write.wait(PATIENCE_S)
        return write(specifications, uid, claim)

    async with offered(card(0)) as (node, kubelet, server):
        server.add_claim({"share": "25k"})
        await kubelet.prepare()
        monkeypatch.setattr(ClaimSpecifications, "write", slow_write)
        node.write_card_names("GPU-0", kind="runtime.nvidia.com/gpu")
        await until(lambda: writers)
        unpreparing = asyncio.ensure_future(kubelet.unprepare())
        await asyncio.wait({unpreparing}, timeout=0.5)  # it may not pass the write
        may_write.set()
        await unpreparing
        await until(lambda: not claim_file(node))
        assert threading.main_thread() not in writers


async def test_a_device_plugin_offers_nothing_while_pods_have_cards_by_claims_or_may_have():
    async with dra_node(card(0)) as (node, _, server):
        as_driver, as_plugin = node.options, replace(node.options, offer="device-plugin")
        server.add_claim({"share": None})
        async with registered(node, server) as kubelet:
            await kubelet.prepare()
        node.options, file = as_plugin, node.root / "state/private/claims.json"
        for content in (file.read_text(), '{"sha256": "0', None):
            file.unlink()
            if content is not None:
                file.write_text(content)
            async with running(node) as process:
                await until_says(process, "drain the node")
        node.options = as_driver
        async with registered(node, server) as kubelet:
            await kubelet.unprepare()
        node.options = as_plugin
        async with running(node) as process:
            await until_says(process, None)


async def test_a_limiters_library_that_changes_is_put_back_without_the_kubelet(tmp_path):
    (tmp_path / "libvgpu.so").write_text("limits")
    async with dra_node(card(0), library=str(tmp_path)) as (node, _, server), running(node, api=server):
        library = node.root / "state/library/libvgpu.so"
        await until(lambda: library.read_text() == "limits")
        library.write_text("lifts")
        await until(lambda: library.read_text() == "limits")
