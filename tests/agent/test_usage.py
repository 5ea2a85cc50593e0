"""What containers may use and what they use, by the kubelet's books and the GPUs' processes."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from agent.gpu import Gpu
from agent.held_slices import HeldSlices
from agent.limiter_check import MAX_LOOKS, MAX_MAPS, LimiterCheck
from agent.settings import LimiterPart
from agent.state import Unlimited
from agent.usage import Usage
from testbed.nvidia.cards import RunningProcess
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import PER_GPU, agent_with, card, ids, node_folder

MIB = 1024 * 1024
FIRST, SECOND = "a" * 64, "b" * 64


def measured(held, *cards, links=(), processes=None, checkpoint=(), policy=PER_GPU):
    """All samples after one measurement, by name and labels, and what runs unlimited."""

    async def measure():
        with node_folder() as node:
            options = replace(
                node.options,
                container_logs=str(node.root / "logs"),
                proc=str(node.root / "proc"),
            )
            if links:
                (node.root / "logs").mkdir()
            for link in links:
                (node.root / "logs" / link).touch()
            for pid, files in (processes or {}).items():
                (node.root / "proc" / str(pid)).mkdir(parents=True)
                for name, text in files.items():
                    (node.root / "proc" / str(pid) / name).write_text(text)
            node.write_gpus(*cards)
            gpus = [Gpu(number, each.uuid, each.name, each.memory_mib) for number, each in enumerate(cards)]
            agent = agent_with(gpus, policy, options, node.open_driver())
            usage = Usage(agent, HeldSlices(agent).shares_of)
            async with kubelet_in(node.root) as kubelet:
                kubelet.held = held
                kubelet.write_checkpoint(*checkpoint)
                await usage.measure()
                await usage.measure()
            agent.source.close()
        return {
            (sample.name.removeprefix("fraction_injector_agent_"), *sample.labels.values()): sample.value
            for family in agent.registry.collect()
            for sample in family.samples
        } | {"unlimited": agent.state.unlimited, "uses": agent.state.uses}

    return asyncio.run(measure())


def test_a_containers_limit_is_its_share_and_that_of_a_whole_gpu_all_of_it():
    held = {
        ("half", "main"): {"nvidia.com/gpu-0": ids(0, 0, 1, 2, 3)},
        ("whole", "main"): {"nvidia.com/gpu-1": ids(1, *range(8)), "example.com/nic": ["nic-0"]},
    }
    samples = measured(held, card(0), card(1, 81920))
    assert samples["container_slices", "default", "half", "main", "0"] == 4
    assert samples["container_memory_limit_bytes", "default", "half", "main", "0"] == 20480 * MIB
    assert samples["container_memory_limit_bytes", "default", "whole", "main", "1"] == 81920 * MIB


def test_a_container_keeps_the_limit_by_which_it_was_given_its_slices_though_the_policy_changed():
    pool, whole, gone = ids(0, 0, 1), ids(1, 0, 1, 2, 3), ids(2, 0, 9)
    held = {
        ("half", "main"): {"nvidia.com/gpu-0": pool},
        ("whole", "main"): {"nvidia.com/gpu-1": whole},
        ("gone", "main"): {"nvidia.com/gpu-2": gone},
    }
    checkpoint = [
        ("uid-1", "main", "nvidia.com/gpu-0", pool, "4"),
        ("uid-2", "main", "nvidia.com/gpu-1", whole, "4"),
        ("uid-3", "main", "nvidia.com/gpu-2", gone, "16"),
    ]
    samples = measured(held, card(0), card(1), card(2), checkpoint=checkpoint)
    limits = [samples["container_memory_limit_bytes", "default", pod, "main", gpu] for pod, gpu in OLD]
    assert limits == [20480 * MIB, 40960 * MIB, 5120 * MIB]


OLD = ("half", "0"), ("whole", "1"), ("gone", "2")


def test_memory_of_processes_is_summed_by_container():
    processes = [RunningProcess(pid, mib) for pid, mib in ((10, 100), (11, 50), (12, 7), (13, 9))]
    samples = measured(
        {},
        card(0, used_mib=200, busy_percent=75, processes=tuple(processes)),
        links=(f"train_work_main-{FIRST}.log", f"other-pod_work_a-b-{SECOND}.log", "strange.log"),
        processes={
            10: {"cgroup": f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{FIRST}.scope\n"},
            11: {"cgroup": f"5:memory:/kubepods/burstable/pod1/{FIRST}\n"},
            12: {"cgroup": f"0::/kubepods/pod2/{SECOND}\n"},
            13: {"cgroup": "0::/system.slice/ssh.service\n"},
        },
    )
    assert samples["container_memory_used_bytes", "work", "train", "main", "0"] == 150 * MIB
    assert samples["container_memory_used_bytes", "work", "other-pod", "a-b", "0"] == 7 * MIB
    assert len([key for key in samples if key[0] == "container_memory_used_bytes"]) == 2
    assert samples["gpu_memory_used_bytes", "0", "GPU-0"] == 200 * MIB
    assert samples["gpu_utilisation_ratio", "0", "GPU-0"] == 0.75


def used_by(samples):
    """(pod, MiB now, MiB at most, per cent of time) of what is known."""
    return [(use.name.pod, use.used_mib, use.peak_mib, use.busy_percent) for use in samples["uses"]]


TWO = {
    ("train", "main"): {"nvidia.com/gpu-0": ids(0, 0, 1)},
    ("idle", "main"): {"nvidia.com/gpu-0": ids(0, 2, 3, 4, 5)},
}


def test_what_a_container_uses_is_beside_what_it_may_use():
    busy = RunningProcess(10, 5120, 30), RunningProcess(11, 100, 10)
    samples = of_one_pod(TWO, {10: CUDA, 11: CUDA}, running=busy)
    assert used_by(samples) == [("train", 5220, 5220, 40), ("idle", 0, 0, 0)]
    [train, idle] = samples["uses"]
    assert (train.memory_mib, idle.memory_mib) == (10240, 20480)
    labels = "default", "train", "main", "0"
    assert samples["container_memory_used_bytes", *labels] == 5220 * MIB
    assert samples["container_memory_peak_bytes", *labels] == 5220 * MIB
    assert samples["container_utilisation_ratio", *labels] == 0.4
    assert samples["container_memory_used_bytes", "default", "idle", "main", "0"] == 0


def test_nobody_is_said_to_use_nothing_while_a_process_may_be_theirs():
    other = {12: {"cgroup": GROUP.format(SECOND)}}
    running = RunningProcess(10, 5120, 30), RunningProcess(12, 100, 10)
    samples = of_one_pod(TWO, {10: CUDA}, running=running, others=other)
    assert used_by(samples) == [("train", 5120, 5120, 30)]
    ended = of_one_pod(TWO, {10: CUDA}, running=running)
    assert used_by(ended) == [("train", 5120, 5120, 30)]
    own = of_one_pod(TWO, {10: CUDA}, running=running, others={12: {"cgroup": "0::/system.slice/x.service"}})
    assert [pod for pod, *_ in used_by(own)] == ["train", "idle"], "a process of the node is no pod's"


def are_alone(samples):
    """Whether each share's idle time counts, by pod."""
    return {use.name.pod: use.idle_since is not None for use in samples["uses"]}


@pytest.fixture
def idles_at_once(monkeypatch):
    monkeypatch.setattr("agent.container_use.IDLE_SECONDS", 0)


@pytest.mark.usefixtures("idles_at_once")
def test_nobody_is_idle_while_a_process_that_may_be_theirs_runs_kernels():
    still = RunningProcess(10, 5120)
    assert are_alone(of_one_pod(TWO, {10: CUDA}, running=(still,))) == {"train": True, "idle": True}
    other = {12: {"cgroup": GROUP.format(SECOND)}}
    for busy, alone in ((None, {"train": True}), (10, {"train": False})):
        running = still, RunningProcess(12, 100, busy)
        assert are_alone(of_one_pod(TWO, {10: CUDA}, running=running, others=other)) == alone
    of_node = {12: {"cgroup": "0::/system.slice/x.service"}}
    running = still, RunningProcess(12, 100, 10)
    found = are_alone(of_one_pod(TWO, {10: CUDA}, running=running, others=of_node))
    assert found == {"train": False, "idle": False}, "it may run kernels of others"


@pytest.mark.usefixtures("idles_at_once")
def test_no_pod_is_idle_that_holds_a_gpu_which_is_not_measured():
    whole = {("train", "other"): {"nvidia.com/gpu": ["GPU-strange"]}}
    assert are_alone(of_one_pod(TWO | whole, {10: CUDA})) == {"train": False, "idle": True}
    network = {("train", "other"): {"rdma/hca": ["mlx5_0"]}}
    assert are_alone(of_one_pod(TWO | network, {10: CUDA})) == {"train": True, "idle": True}


def test_nothing_is_said_of_use_without_the_containers_names():
    assert measured(TWO, card(0, processes=(RunningProcess(10, 10),)))["uses"] is None


def test_a_node_that_shows_no_processes_and_a_lost_gpu_have_no_series():
    samples = measured({}, card(0, processes=(RunningProcess(10, 5),)), card(1, lost=True))
    assert [key for key in samples if key[0].startswith("container")] == []
    assert ("gpu_memory_used_bytes", "0", "GPU-0") in samples
    assert ("gpu_memory_used_bytes", "1", "GPU-1") not in samples


CUDA = "7f00-7f01 r-xp 00000000 08:01 11 /usr/lib/libcuda.so.1\n"
LIMITER = "7f02-7f03 r-xp 00000000 08:01 12 /usr/local/vgpu/libvgpu.so{}\n"
POD_UID = "0123abcd-0000-1111-2222-333344445555"
GROUP = f"0::/kubepods.slice/kubepods-pod{POD_UID.replace('-', '_')}.slice/cri-containerd-{{}}.scope\n"
SHARE = {("train", "main"): {"nvidia.com/gpu-0": ids(0, 0, 1)}}
WHOLE = {("train", "main"): {"nvidia.com/gpu-0": ids(0, *range(8))}}
LINK = f"train_default_main-{FIRST}.log"
UNLIMITED = "container_unlimited_processes", "default", "train", "main", "0"


def of_one_pod(held, maps, running=None, others=None, **more):
    """What is measured of a pod whose processes have these maps; of a process without, none can be read."""
    running = running or tuple(RunningProcess(pid, 10) for pid in maps)
    return measured(
        held,
        card(0, processes=running),
        links=(LINK,),
        processes={
            pid: {"cgroup": GROUP.format(FIRST)} | ({"maps": lines} if lines is not None else {})
            for pid, lines in maps.items()
        }
        | (others or {}),
        **more,
    )


def test_programs_of_a_share_without_the_limiter_are_counted_and_their_pod_is_named():
    maps = {10: CUDA, 11: CUDA + LIMITER.format(""), 12: CUDA + LIMITER.format(" (deleted)")}
    samples = of_one_pod(SHARE, maps)
    assert samples[UNLIMITED] == 1
    assert samples["unlimited"] == (Unlimited("default", "train", POD_UID, "main", FIRST, 0, 10240),)
    limited = of_one_pod(SHARE, {10: CUDA + LIMITER.format("")})
    assert (limited[UNLIMITED], limited["unlimited"]) == (0, ())


@pytest.mark.parametrize(
    ("held", "maps"),
    [(WHOLE, CUDA), ({}, CUDA), (SHARE, None), (SHARE, ""), (SHARE, CUDA * (MAX_MAPS // len(CUDA) + 2))],
    ids=["whole GPU", "no share", "unreadable", "ended", "too many mappings"],
)
def test_programs_that_need_no_limiter_or_cannot_be_checked_are_not_counted(held, maps):
    samples = of_one_pod(held, {10: maps})
    assert UNLIMITED not in samples
    assert samples["unlimited"] == ()


def test_it_is_unknown_without_the_containers_names_or_without_a_library_to_look_for():
    no_library = msgspec.structs.replace(PER_GPU, limiter=LimiterPart(name="none"))
    assert of_one_pod(SHARE, {10: CUDA}, policy=no_library)["unlimited"] is None
    assert measured(SHARE, card(0, processes=(RunningProcess(10, 10),)))["unlimited"] is None


def test_each_process_is_looked_at_once_and_so_many_at_a_time(tmp_path):
    check = LimiterCheck(PER_GPU.limiter, tmp_path)
    processes = [(pid, FIRST) for pid in range(MAX_LOOKS + 1)]
    for pid, _ in processes:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(CUDA)
    assert len(check.has_limiter(processes)) == MAX_LOOKS
    for pid, _ in processes:
        (tmp_path / str(pid) / "maps").unlink()
    assert len(check.has_limiter(processes)) == MAX_LOOKS
    assert check.has_limiter([(0, SECOND)]) == {}
