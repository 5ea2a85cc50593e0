"""Where the driver can hold containers to GPU memory, a hook of NVIDIA's toolkit gets each share from us."""

import contextlib
import json
import shutil

import grpc
import msgspec
import pytest

from agent.cdi_reader import LIMIT_HOOK
from agent.settings import LimiterPart
from testbed.nvidia.cards import LIMITS_OFFERED, LIMITS_UNKNOWN
from tests.agent.support.node import PER_GPU, card, ids, node_with, run_hook, running, until, until_says

NAME = "nvidia.com/gpu-0"
NO_LIMITER = msgspec.structs.replace(PER_GPU, limiter=LimiterPart("none", (("A", "b"),)))


@contextlib.asynccontextmanager
async def limited(*, can=True, hook=LIMIT_HOOK, policy=PER_GPU, **options):
    """A node with an agent whose driver can limit or cannot, under a toolkit with a hook."""
    cards = card(0, 40960), card(1, 81920)
    async with node_with(*cards, **options) as (node, kubelet):
        node.write_gpus(*cards, limits=LIMITS_OFFERED if can else LIMITS_UNKNOWN)
        node.take_control_groups_of_version_2()
        node.write_card_names("GPU-0", "GPU-1", hook=hook)
        async with running(node, policy) as process:
            await until_says(process, None)
            yield node, kubelet, process


def hooks_of(node, index, slices):
    return node.specification(index)[f"clearml-injector.io/slices=GPU-{index}-{slices}-of-8"].get("hooks", [])


def metrics(process):
    """Whether the driver can limit, and whether it does."""
    value = process._registry.get_sample_value
    return [value(f"fraction_injector_agent_driver_limits{end}") for end in ("_offered", "")]


def shown_by(hook, **state):
    """What the program of a hook was shown: the process ID, its arguments, and the container's variables."""
    ended = run_hook(hook, {"pid": 4711, "bundle": "/", **state})
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


async def test_the_toolkits_program_gets_the_share_of_the_card_whatever_the_pod_says(tmp_path):
    said = {"process": {"env": ["NVIDIA_GPU_MEMORY_LIMIT=999999", "NVIDIA_GPU_MEMORY_REQUEST=0"]}}
    (tmp_path / "config.json").write_text(json.dumps(said))
    # What a pod's author writes comes as a text in a text.
    notes = {"note": f'"bundle":"{tmp_path}"', "more": 'x|y\\"&'}
    state = {"id": "a" * 64, "status": "creating", "bundle": str(tmp_path), "annotations": notes}
    async with limited() as (node, _kubelet, _process):
        for index, mib in ((0, 15360), (1, 30720)):
            [hook] = hooks_of(node, index, 3)
            assert hook["hookName"] == "createRuntime"
            assert "NVIDIA_CTK_DEBUG=false" in hook["env"]
            pid, arguments, environment = shown_by(hook, **state)
            assert (pid, arguments) == (4711, [LIMIT_HOOK, "--gpu-id", f"GPU-{index}"])
            # What is requested would be added to dmem.min of every group above, and never taken back.
            assert environment == ["NVIDIA_GPU_MEMORY_REQUEST=0", f"NVIDIA_GPU_MEMORY_LIMIT={mib}"]


@pytest.mark.parametrize(
    ("options", "reported", "said"),
    [
        ({"driver_limits": "false"}, [1, 0], "None"),
        ({"node_root": "/nowhere"}, [1, 0], "not used: the node has no /usr/bin/sh"),
        ({"can": False}, [0, 0], "GPU 0: nvmlDeviceGetMemoryLimits_v1: Function Not Found"),
        ({"hook": "update-ldcache"}, [1, 0], "container toolkit 1.20.1 or newer has it"),
        ({"policy": NO_LIMITER}, [1, 0], "a policy with a limiter"),
    ],
)
async def test_where_no_hook_is_written_the_node_says_why(options, reported, said):
    async with limited(**options) as (node, _, process):
        assert said in str(process.state.driver_limits)
        assert metrics(process) == reported
        assert hooks_of(node, 0, 3) == []


@pytest.mark.parametrize(
    "spoiled",
    [
        None,
        '{"ociVersion":"1.0.2","process":{"env":["NVIDIA_GPU_MEMORY_LIMIT=15360"',
        '{"ociVersion":"1.0.2","process":{"env":["NVIDIA_GPU_MEMORY_LIMIT=153600"]}}',
        '"; exit 0; echo "',
    ],
    ids=["gone", "the limit and no JSON", "of another share", "shell"],
)
async def test_without_the_file_that_names_the_limit_the_container_does_not_start(spoiled):
    async with limited() as (node, _kubelet, _process):
        [hook] = hooks_of(node, 0, 3)
        file = node.root / "state" / "driver-limits" / "15360" / "config.json"
        file.write_text(spoiled) if spoiled is not None else file.unlink()
        ended = run_hook(hook, {"pid": 4711, "bundle": "/"})
        assert ended.returncode != 0
        [line] = ended.stderr.splitlines()
        assert f"{file} is gone or changed" in line
        assert len(line.replace(str(node.root), "/var/lib")) <= 200


async def test_the_agent_puts_the_file_back_before_a_container_starts_and_without_it_none_starts():
    async with limited() as (node, kubelet, _process):
        await kubelet.allocate(NAME, *ids(0, 0, 1, 2))
        folder = node.root / "state" / "driver-limits"
        [hook] = hooks_of(node, 0, 3)
        for spoil in (
            lambda: (folder / "15360" / "config.json").write_text("{}"),
            lambda: shutil.rmtree(folder),
        ):
            spoil()
            await kubelet.pre_start(NAME, *ids(0, 0, 1, 2))
            assert "NVIDIA_GPU_MEMORY_LIMIT=15360" in shown_by(hook)[2]
        shutil.rmtree(folder)
        folder.write_text("in the way")
        with pytest.raises(grpc.aio.AioRpcError, match=r"driver-limits/.* cannot be written"):
            await kubelet.pre_start(NAME, *ids(0, 0, 1, 2))


async def test_a_share_has_the_hook_next_to_its_limiter_and_a_whole_gpu_has_none():
    async with limited() as (node, kubelet, process):
        edits = node.specification(0)["clearml-injector.io/slices=GPU-0-3-of-8"]
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=15360m" in edits["env"]
        answer = await kubelet.allocate(NAME, *ids(0, *range(8)))
        assert [each.name for each in answer.cdi_devices] == ["nvidia.com/gpu=GPU-0"]
        assert metrics(process) == [1, 1]
        assert process.state.driver_limits == "held"


async def test_a_toolkit_that_gets_the_hook_later_limits_containers_from_then_on(monkeypatch, capfd):
    monkeypatch.setattr("agent.preparation.POLL_SECONDS", 0.01)
    async with limited(hook="update-ldcache") as (node, kubelet, process):
        before, in_the_way = node.specification(0), node.root / "state" / "driver-limits"
        in_the_way.touch()
        node.write_card_names("GPU-0", "GPU-1", hook=LIMIT_HOOK)
        await until(lambda: "our CDI devices are not updated" in capfd.readouterr().err)
        assert node.specification(0) == before, "what cannot be written stays as it was"
        await kubelet.allocate(NAME, "GPU-0::0")
        in_the_way.unlink()
        await until(lambda: hooks_of(node, 0, 3) and process.state.driver_limits == "held")
        assert metrics(process) == [1, 1]
