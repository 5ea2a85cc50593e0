"""The agent as a DRA driver, as a kubelet and an API server meet it."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace

import msgspec
import pytest

from agent.dra.specifications import ClaimSpecifications
from agent.files import BOOT_ID
from kube.dra import DRIVER
from tests.agent.support.dra import (
    NODE,
    OTHER,
    UID,
    DraKubelet,
    claim_file,
    dra_node,
    driver_on,
    offered,
    prepared,
    registered,
)
from tests.agent.support.kubelet import PATIENCE_S
from tests.agent.support.node import HAMI, PER_GPU, card, ready, running, until


async def test_the_kubelet_finds_the_driver_by_its_socket_in_the_registry():
    async with dra_node(card(0)) as (node, _, server):
        async with driver_on(node, server) as process:
            await until(lambda: server.devices)
            assert "not registered with the kubelet yet" in (await ready(process)).text
            kubelet = DraKubelet(node)
            await kubelet.register()
            await until(lambda: process.state.missing is None)
        assert (kubelet.info.type, kubelet.info.name) == ("DRAPlugin", DRIVER)
        assert kubelet.info.endpoint == f"{node.root}/plugins/{DRIVER}/dra.sock"
        assert list(kubelet.info.supported_versions) == ["v1.DRAPlugin"]
        assert not [*node.root.glob("plugins_registry/*"), *node.root.glob("plugins/*/*")]
        assert server.devices, "a driver that ends leaves its slice"


async def test_a_share_is_the_card_and_exactly_its_limit():
    async with offered(card(0), card(1, 81920, reserved_mib=361)) as (node, kubelet, server):
        server.add_claim({"device": "gpu-1", "share": "17546", "request": "gpu/m81920"})
        answer = await prepared(kubelet)
        assert not answer.error
        [device] = answer.devices
        assert list(device.request_names) == ["gpu"]
        assert (device.pool_name, device.device_name, device.share_id) == (NODE, "gpu-1", "share-1")
        assert list(device.cdi_device_ids) == ["nvidia.com/gpu=GPU-1", f"clearml-injector.io/claim={UID}-0"]
        edits = claim_file(node)[f"{UID}-0"]
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=1431m" in edits["env"]  # of 1431.04
        assert "CUDA_DEVICE_MEMORY_LIMIT_1=1431m" in edits["env"]
        assert {each["containerPath"] for each in edits["mounts"]} == {
            "/usr/local/vgpu",
            "/etc/ld.so.preload",
            "/cache",
        }


async def test_a_whole_card_has_no_limit():
    async with offered(card(0)) as (node, kubelet, server):
        server.add_claim({})
        answer = await prepared(kubelet)
        assert [list(each.cdi_device_ids) for each in answer.devices] == [["nvidia.com/gpu=GPU-0"]]
        assert not claim_file(node)


async def test_what_is_no_claim_of_this_node_is_refused_and_leaves_no_file():
    async with offered(card(0)) as (node, kubelet, server):
        server.add_claim({"device": "gpu-7", "share": "25k"})
        for name, uid, why in (
            ("claim", UID, "gpu-7 is not a GPU that this node offers"),
            ("gone", UID, "does not exist"),
        ):
            answer = await prepared(kubelet, name, uid)
            assert why in answer.error
            assert not answer.devices
        assert not [path for path in node.cdi.iterdir() if "claim" in path.name]


async def test_a_limiter_that_sets_nothing_leaves_the_card_alone():
    policy = msgspec.structs.replace(
        PER_GPU, limiter=msgspec.structs.replace(HAMI, env=(), preload=None, cache_path=None)
    )
    async with offered(card(0), policy=policy) as (node, kubelet, server):
        server.add_claim({"share": "250k"})
        answer = await prepared(kubelet)
        assert [list(each.cdi_device_ids) for each in answer.devices] == [["nvidia.com/gpu=GPU-0"]]
        assert not claim_file(node)


async def test_several_cards_have_a_limit_each_and_different_ones_stop_a_container_that_would_have_both():
    async with offered(card(0), card(1)) as (node, kubelet, server):
        server.add_claim({"share": "250k"}, {"device": "gpu-1", "share": "250k"})
        answer = await prepared(kubelet)
        assert [each.device_name for each in answer.devices] == ["gpu-0", "gpu-1"]
        assert set(claim_file(node)) == {f"{UID}-0", f"{UID}-1"}
        assert all("hooks" not in each for each in claim_file(node).values())
        server.add_claim(
            {"share": "250k", "request": "gpu-0"},
            {"device": "gpu-1", "share": "500k", "request": "gpu-1"},
            {"device": "gpu-1", "request": "gpu-2"},
        )
        answer = await prepared(kubelet)
        assert [list(each.request_names) for each in answer.devices] == [["gpu-0"], ["gpu-1"], ["gpu-2"]]
        hooks = [each["hooks"][0]["args"][-2:] for each in claim_file(node).values()]
        assert hooks == [
            ["CUDA_DEVICE_MEMORY_LIMIT_0", "10240m"],
            ["CUDA_DEVICE_MEMORY_LIMIT_0", "20480m"],
        ]


async def test_two_claims_of_one_pod_have_equal_amounts():
    async with offered(card(0), card(1)) as (_, kubelet, server):
        server.add_claim({"share": "25k"})
        server.add_claim({"device": "gpu-1", "share": "50k"}, name="second", uid=OTHER)
        answers = await kubelet.prepare(("claim", UID), ("second", OTHER))
        assert not answers[UID].error
        assert "write both requests into one ResourceClaim" in answers[OTHER].error
        server.add_claim({"device": "gpu-1", "share": "50k"}, name="second", uid=OTHER, pod="another-pod")
        answer = await prepared(kubelet, "second", OTHER)
        assert not answer.error


async def test_prepare_and_unprepare_may_be_repeated():
    async with offered(card(0)) as (node, kubelet, server):
        server.add_claim({"share": "25k"})
        first, second = [await kubelet.prepare(("claim", UID)) for _ in range(2)]
        assert first == second
        (node.cdi / f"clearml-injector.io-claim-{UID}.json").unlink()
        await kubelet.prepare(("claim", UID))
        assert claim_file(node)
        for _ in range(2):
            assert await kubelet.unprepare(("claim", UID)) == {UID: ""}
            assert not claim_file(node)
        assert json.loads((node.root / "state/private/claims.json").read_text())["content"]["claims"] == {}


async def test_the_cdi_devices_of_claims_are_there_again_after_a_restart_and_an_empty_folder():
    async with dra_node(card(0)) as (node, _, server):
        server.add_claim({"share": "25k"})
        async with registered(node, server) as kubelet:
            await kubelet.prepare(("claim", UID))
            before = claim_file(node)
        (node.cdi / f"clearml-injector.io-claim-{UID}.json").unlink()
        async with registered(node, server):
            assert claim_file(node) == before


async def test_a_restart_of_the_node_ends_what_is_unknown(tmp_path):
    boot = tmp_path / BOOT_ID
    boot.parent.mkdir(parents=True)
    boot.write_text("boot-1")
    async with dra_node(card(0), proc=str(tmp_path)) as (node, _, server):
        server.add_claim({"share": "25k"})
        async with registered(node, server) as kubelet:
            await kubelet.prepare(("claim", UID))
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
            await kubelet.prepare(("claim", UID))
        (node.root / "state/private/claims.json").unlink()
        async with registered(node, server) as kubelet:
            assert claim_file(node)
            await kubelet.prepare(("other", OTHER))
        async with registered(node, server) as kubelet:
            assert claim_file(node)
            await kubelet.unprepare(("claim", UID))
            assert not claim_file(node)
        async with registered(node, server):
            assert claim_file(node, OTHER)


async def test_what_is_written_again_is_written_in_a_thread_and_never_after_it_was_removed():
    write, writers, may_write = ClaimSpecifications.write, [], threading.Event()

    def slow_write(specifications, uid, claim):
        writers.append(threading.current_thread())
        if writers[-1] is not threading.main_thread():
            may_write.wait(PATIENCE_S)
        return write(specifications, uid, claim)

    async with offered(card(0)) as (node, kubelet, server):
        server.add_claim({"share": "25k"})
        await kubelet.prepare(("claim", UID))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ClaimSpecifications, "write", slow_write)
            node.write_card_names("GPU-0", kind="runtime.nvidia.com/gpu")
            await until(lambda: writers)
            unpreparing = asyncio.ensure_future(kubelet.unprepare(("claim", UID)))
            await asyncio.wait({unpreparing}, timeout=0.5)  # it may not pass the write
            may_write.set()
            await unpreparing
            await until(lambda: not claim_file(node))
        assert threading.main_thread() not in writers


@contextlib.asynccontextmanager
async def device_plugin_on(node):
    """The same agent, which offers by device plugins."""
    before = node.options
    node.options = replace(before, offer="device-plugin")
    async with running(node) as process:
        yield process
    node.options = before


async def test_a_device_plugin_offers_nothing_while_pods_have_cards_by_claims_or_may_have():
    async with dra_node(card(0)) as (node, _, server):
        server.add_claim({"share": None})
        async with registered(node, server) as kubelet:
            await kubelet.prepare(("claim", UID))
        file = node.root / "state/private/claims.json"
        for content in (file.read_text(), '{"sha256": "0', None):
            file.unlink()
            if content is not None:
                file.write_text(content)
            async with device_plugin_on(node) as process:
                await until(
                    lambda: process.state is not None and "drain the node" in str(process.state.missing)
                )
        async with registered(node, server) as kubelet:
            await kubelet.unprepare(("claim", UID))
        async with device_plugin_on(node) as process:
            await until(lambda: process.state is not None and process.state.missing is None)


async def test_a_removed_socket_is_served_again():
    async with offered(card(0)) as (node, kubelet, _):
        (node.root / "plugins_registry" / f"{DRIVER}-reg.sock").unlink()
        await until((node.root / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
        await kubelet.register()


async def test_a_limiters_library_that_changes_is_put_back_without_the_kubelet(tmp_path):
    (tmp_path / "libvgpu.so").write_text("limits")
    async with dra_node(card(0), library=str(tmp_path)) as (node, _, server), driver_on(node, server):
        library = node.root / "state/library/libvgpu.so"
        await until(lambda: library.read_text() == "limits")
        library.write_text("lifts")
        await until(lambda: library.read_text() == "limits")
