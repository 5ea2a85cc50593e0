"""The device plugin, as a kubelet meets it over its sockets."""

import grpc
import msgspec
import pytest

from agent.limits import loader_list
from agent.settings import LimiterPart
from tests.agent.support.node import (
    HAMI,
    PER_GPU,
    POOLED,
    card,
    ids,
    node_with,
    ready,
    running,
    served,
    until,
    until_says,
)

FIRST, SECOND = "nvidia.com/gpu-0", "nvidia.com/gpu-1"
UNEQUAL = "CUDA_DEVICE_MEMORY_LIMIT_0 would have to be 10240m"


def named(answer):
    return [each.name for each in answer.cdi_devices]


async def test_each_gpu_has_a_name_of_its_own_with_its_numa_node():
    async with node_with(card(0), card(1)) as (node, kubelet):
        node.write_numa_node(card(0), 1)
        async with running(node):
            for index, name in enumerate((FIRST, SECOND)):
                await kubelet.until_offered(name)
                assert list(kubelet.devices[name]) == ids(index, *range(8))
            assert kubelet.topology == {FIRST: [1], SECOND: []}


async def test_a_share_is_a_card_and_its_limit():
    async with served(card(0, 40960), card(1, 81920)) as (node, kubelet):
        answer = await kubelet.allocate(SECOND, *ids(1, 0, 4, 7))
        assert named(answer) == ["nvidia.com/gpu=GPU-1", "clearml-injector.io/slices=GPU-1-3-of-8"]
        assert not answer.envs
        assert not answer.mounts
        edits = node.specification(1)["clearml-injector.io/slices=GPU-1-3-of-8"]
        assert edits["env"] == [
            "CUDA_DEVICE_MEMORY_SHARED_CACHE=/cache/gpu.cache",
            "LIBCUDA_LOG_LEVEL=1",
            "CUDA_DEVICE_MEMORY_LIMIT_0=30720m",
            "CUDA_DEVICE_MEMORY_LIMIT_1=30720m",
        ]
        state, names_library = node.root / "state", loader_list(HAMI.preload)
        assert {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]} == {
            "/usr/local/vgpu": str(state / "library"),
            "/etc/ld.so.preload": str(state / names_library),
            "/cache": "tmpfs",
        }
        assert (state / names_library).read_text() == "/usr/local/vgpu/libvgpu.so\n"


async def test_what_is_no_slice_of_the_gpu_is_refused():
    async with served(card(0), card(1)) as (_, kubelet):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kubelet.allocate(FIRST, "GPU-1::0")
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_pool_prefers_one_card_and_refuses_a_share_that_spans_two():
    async with served(card(0), card(1), policy=POOLED) as (_, kubelet):
        free = [*ids(0, 0, 1, 2), *ids(1, 0, 1, 2, 3, 4)]
        assert await kubelet.prefer("nvidia.com/gpu", free, 2, must=("GPU-1::4",)) == ids(1, 4, 0)
        with pytest.raises(grpc.aio.AioRpcError, match="1 of GPU 0, 1 of GPU 1"):
            await kubelet.allocate("nvidia.com/gpu", *ids(1, 0), *ids(0, 0))
        whole = await kubelet.allocate("nvidia.com/gpu", *ids(1, *range(8)), *ids(0, *range(8)))
        assert named(whole) == ["nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"]


async def test_a_container_whose_gpus_would_need_two_values_of_one_variable_does_not_start():
    async with served(card(0), card(1)) as (_, kubelet):
        kubelet.held["equal", "main"] = {FIRST: ids(0, 0, 1), SECOND: ids(1, 0, 1)}
        kubelet.held["unequal", "main"] = {FIRST: ids(0, 2, 3), SECOND: ids(1, 2)}
        await kubelet.pre_start(FIRST, *ids(0, 0, 1))
        with pytest.raises(grpc.aio.AioRpcError, match=UNEQUAL):
            await kubelet.pre_start(SECOND, *ids(1, 2))


async def test_an_init_container_is_held_to_the_same_though_pod_resources_does_not_list_it():
    async with served(card(0), card(1)) as (_, kubelet):
        equal, second = ids(0, 0, 1), ids(1, 0)
        kubelet.held["pod", "main"] = {FIRST: equal, SECOND: ids(1, 0, 1)}
        main = [("uid", "main", name, given, None) for name, given in kubelet.held["pod", "main"].items()]
        init = [("uid", "init", FIRST, equal, None), ("uid", "init", SECOND, second, None)]
        kubelet.write_checkpoint(*main)
        await kubelet.pre_start(FIRST, *equal)
        kubelet.write_checkpoint(*main, *init)
        with pytest.raises(grpc.aio.AioRpcError, match=UNEQUAL):
            await kubelet.pre_start(SECOND, *second)


async def test_a_container_that_got_its_slices_under_another_policy_may_start_again():
    async with served(card(0), card(1)) as (_, kubelet):
        kubelet.held["old", "main"] = {FIRST: ids(0, 3, 12, 13)}
        await kubelet.pre_start(FIRST, *ids(0, 3, 12, 13))
        # Slices of two divisions are compared by what each is of its card.
        old, new = ids(0, 0, 1), ids(1, *range(4))
        kubelet.write_checkpoint(("uid", "main", FIRST, old, "4"), ("uid", "main", SECOND, new, "8"))
        await kubelet.pre_start(FIRST, *old)


async def test_a_library_that_was_replaced_is_put_back_before_it_is_used_or_not_used(tmp_path):
    (tmp_path / "libvgpu.so").write_bytes(b"the limiter")
    async with served(card(0), library=str(tmp_path)) as (node, kubelet):
        on_node = node.root / "state" / "library" / "libvgpu.so"
        for call in (kubelet.allocate, kubelet.pre_start):
            on_node.write_bytes(b"no limiter")
            await call(FIRST, *ids(0, 0))
            assert on_node.read_bytes() == b"the limiter"
        on_node.unlink()
        on_node.mkdir()
        for call in (kubelet.allocate, kubelet.pre_start):
            with pytest.raises(grpc.aio.AioRpcError, match="cannot be written: Is a directory"):
                await call(FIRST, *ids(0, 0))


HALF = ids(0, 4, 5, 6, 7)
"""Of a card with eight slices; of one with four, the kubelet would take no slice for allocated."""


@pytest.mark.parametrize("limiter", [HAMI, LimiterPart("none")], ids=["limited here", "limited at admission"])
@pytest.mark.parametrize("size", [4, 16])
async def test_a_card_with_slices_of_another_size_gets_no_new_pod_until_they_have_ended(
    size, limiter, monkeypatch
):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    eighths = msgspec.structs.replace(PER_GPU, limiter=limiter)
    async with node_with(card(0)) as (node, kubelet):
        async with running(node, eighths):
            await kubelet.until_offered(FIRST)
            answer = await kubelet.allocate(FIRST, *HALF)
        kubelet.write_checkpoint(("uid", "main", FIRST, HALF, answer))
        kubelet.held["old", "main"] = {FIRST: HALF}
        kubelet.first_devices.clear()
        async with running(node, msgspec.structs.replace(eighths, slices_per_gpu=size)) as process:
            assert await kubelet.until_first_offered(FIRST) == 0
            assert "pods hold slices of it from when it had 8" in process.state.unhealthy["GPU-0"]
            # The kubelet's file says it until the next pod; its books do not.
            kubelet.held.clear()
            await kubelet.until_offered(FIRST, size)


async def test_without_pod_resources_the_kubelets_file_says_which_slices_are_of_another_size(monkeypatch):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    async with node_with(card(0)) as (node, kubelet):
        kubelet.write_checkpoint(("uid", "main", FIRST, HALF, "8"))
        kubelet.lists = False
        async with running(node, msgspec.structs.replace(PER_GPU, slices_per_gpu=16)):
            assert await kubelet.until_first_offered(FIRST) == 0
            kubelet.write_checkpoint(("uid", "main", FIRST, HALF, None))  # what does not say its size
            await kubelet.until_offered(FIRST, 16)


async def test_our_specification_is_written_again_after_it_was_removed():
    async with served(card(0)) as (node, kubelet):
        before = node.specification(0)
        for path in node.cdi.glob("clearml-injector*"):
            path.unlink()
        await kubelet.allocate(FIRST, "GPU-0::0")
        assert node.specification(0) == before


async def test_a_node_whose_gpus_are_all_in_mig_mode_takes_no_name_from_another_plugin():
    async with node_with(card(0, mig=True)) as (node, kubelet), running(node, POOLED) as process:
        await until_says(process, None)
        assert (await ready(process)).status_code == 200
        assert kubelet.registrations == {}
        offered = {"resource": "nvidia.com/gpu"}
        assert process._registry.get_sample_value("fraction_injector_agent_registered", offered) is None


async def test_cards_that_nvidias_toolkit_renames_get_their_new_names(monkeypatch, capfd):
    monkeypatch.setattr("agent.preparation.POLL_SECONDS", 0.01)
    async with served(card(0)) as (node, kubelet):
        assert named(await kubelet.allocate(FIRST, "GPU-0::0"))[0] == "nvidia.com/gpu=GPU-0"
        node.write_card_names("all")
        await until(lambda: "go by the CDI names that they had" in capfd.readouterr().err)
        node.write_card_names("0", kind="runtime.nvidia.com/gpu")
        await until(lambda: "go by other CDI names" in capfd.readouterr().err)
        assert named(await kubelet.allocate(FIRST, "GPU-0::1"))[0] == "runtime.nvidia.com/gpu=0"
