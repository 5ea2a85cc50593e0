"""What containers may use and what they use, by the kubelet's books and the GPUs' processes."""

import asyncio
import shutil
from unittest import mock

import msgspec
import pytest

from agent.gpu import Gpu
from agent.held_slices import HeldSlices
from agent.limiter_check import MAX_LOOKS, MAX_MAPS, LimiterCheck
from agent.settings import LimiterPart
from agent.state import Held, Unlimited
from agent.usage import Usage
from testbed.nvidia.cards import RunningProcess
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import PER_GPU, agent_with, card, ids, node_folder

MIB = 1024 * 1024
FIRST, SECOND = "a" * 64, "b" * 64


def measured(held, *cards, processes=None, checkpoint=(), policy=PER_GPU):
    """All samples after two measurements, by name and labels, and the state.

    Processes have a container, its ID, and files; without any the kubelet has no links to logs.
    """

    async def measure():
        with node_folder() as node:
            for pid, (container, container_id, files) in (processes or {}).items():
                node.write_process(pid, container, container_id, **files)
            node.write_gpus(*cards)
            gpus = [Gpu(number, each.uuid, each.name, each.memory_mib) for number, each in enumerate(cards)]
            agent = agent_with(gpus, policy, node.options, node.open_driver())
            usage = Usage(agent, HeldSlices(agent).shares_of)
            async with kubelet_in(node.root) as kubelet:
                kubelet.held = held
                kubelet.write_checkpoint(*checkpoint)
                await usage.measure()
                await usage.measure()
            agent.source.close()
        samples = {
            (sample.name.removeprefix("fraction_injector_agent_"), *sample.labels.values()): sample.value
            for family in agent.registry.collect()
            for sample in family.samples
        }
        return samples, agent.state

    return asyncio.run(measure())


def test_a_containers_limit_is_its_share_by_which_it_was_given_its_slices_though_the_policy_changed():
    held = {
        ("eighths", "main"): {"nvidia.com/gpu-0": ids(0, 4, 5, 6)},
        ("half", "main"): {"nvidia.com/gpu-0": ids(0, 0, 1)},
        ("whole", "main"): {"nvidia.com/gpu-1": ids(1, 0, 1, 2, 3), "example.com/nic": ["nic-0"]},
        ("gone", "main"): {"nvidia.com/gpu-2": ids(2, 0, 9)},
        ("unknown", "main"): {"nvidia.com/gpu-2": ids(2, 12)},
        ("unknown", "beside"): {"nvidia.com/gpu-2": ids(2, 13)},
    }
    of_before = {"half": "4", "whole": "4", "gone": "16"}
    checkpoint = [
        ("uid", "main", *next(iter(held[pod, "main"].items())), size) for pod, size in of_before.items()
    ]
    samples, state = measured(held, card(0), card(1, 81920), card(2), checkpoint=checkpoint)
    limits = {
        key[2]: value / MIB for key, value in samples.items() if key[0] == "container_memory_limit_bytes"
    }
    assert limits == {"eighths": 15360, "half": 20480, "whole": 81920, "gone": 5120}
    assert samples["container_slices", "default", "eighths", "main", "0"] == 3
    assert state.held == {"GPU-0": Held(5, 2), "GPU-1": Held(4, 1), "GPU-2": Held(4, 2)}


def test_memory_of_processes_is_summed_by_container():
    running = tuple(RunningProcess(pid, mib) for pid, mib in ((10, 100), (11, 50), (12, 7), (13, 9)))
    processes = {
        10: ("train_work_main", FIRST, {}),
        11: ("train_work_main", FIRST, {"cgroup": f"5:memory:/kubepods/burstable/pod1/{FIRST}\n"}),
        12: ("other-pod_work_a-b", SECOND, {}),
        13: ("strange", FIRST, OF_NODE),
    }
    samples, _ = measured({}, card(0, used_mib=200, busy_percent=75, processes=running), processes=processes)
    used = {key[1:]: value / MIB for key, value in samples.items() if key[0] == "container_memory_used_bytes"}
    assert used == {("work", "train", "main", "0"): 150, ("work", "other-pod", "a-b", "0"): 7}
    assert samples["gpu_memory_used_bytes", "0", "GPU-0"] == 200 * MIB
    assert samples["gpu_utilisation_ratio", "0", "GPU-0"] == 0.75


CUDA = "7f00-7f01 r-xp 00000000 08:01 11 /usr/lib/libcuda.so.1\n"
LIMITER = "7f02-7f03 r-xp 00000000 08:01 12 /usr/local/vgpu/libvgpu.so{}\n"
POD_UID = "0123abcd-0000-1111-2222-333344445555"
GROUP = f"0::/kubepods.slice/kubepods-pod{POD_UID.replace('-', '_')}.slice/cri-containerd-{{}}.scope\n"
OF_NODE, OF_ENDED = {"cgroup": "0::/system.slice/x.service\n"}, {"cgroup": GROUP.format(SECOND)}
SHARE = {("train", "main"): {"nvidia.com/gpu-0": ids(0, 0, 1)}}
WHOLE = {("train", "main"): {"nvidia.com/gpu-0": ids(0, *range(8))}}
TWO = SHARE | {("idle", "main"): {"nvidia.com/gpu-0": ids(0, 2, 3, 4, 5)}}
UNLIMITED = "container_unlimited_processes", "default", "train", "main", "0"


def of_one_pod(held, maps, running=None, others=None, **more):
    """What is measured of a pod whose processes have these maps; of a process without, none can be read.

    Others are files of one more process, 12, by which the kubelet knows no container.
    """
    running = running or tuple(RunningProcess(pid, 10) for pid in maps)
    files = {pid: {"cgroup": GROUP.format(FIRST)} for pid in maps}
    files = {pid: each if maps[pid] is None else {**each, "maps": maps[pid]} for pid, each in files.items()}
    processes = {pid: ("train_default_main", FIRST, each) for pid, each in files.items()}
    processes |= {12: ("train_default_main", FIRST, others)} if others else {}
    return measured(held, card(0, processes=running), processes=processes, **more)


def used(measurement):
    """(pod, MiB now, MiB at most, per cent of time) of what is known."""
    return [(use.name.pod, use.used_mib, use.peak_mib, use.busy_percent) for use in measurement[1].uses]


def test_what_a_container_uses_is_beside_what_it_may_use():
    busy = RunningProcess(10, 5120, 30), RunningProcess(11, 100, 10)
    samples, state = of_one_pod(TWO, {10: CUDA, 11: CUDA}, running=busy)
    assert used((samples, state)) == [("train", 5220, 5220, 40), ("idle", 0, 0, 0)]
    assert [use.memory_mib for use in state.uses] == [10240, 20480]
    labels = "default", "train", "main", "0"
    assert samples["container_memory_used_bytes", *labels] == 5220 * MIB
    assert samples["container_memory_peak_bytes", *labels] == 5220 * MIB
    assert samples["container_utilisation_ratio", *labels] == 0.4
    assert samples["container_memory_used_bytes", "default", "idle", "main", "0"] == 0


def test_nobody_is_said_to_use_nothing_while_a_process_may_be_theirs():
    running = RunningProcess(10, 5120, 30), RunningProcess(12, 100, 10)
    for others in (OF_ENDED, None):
        assert used(of_one_pod(TWO, {10: CUDA}, running, others)) == [("train", 5120, 5120, 30)]
    own = used(of_one_pod(TWO, {10: CUDA}, running, OF_NODE))
    assert [pod for pod, *_ in own] == ["train", "idle"], "a process of the node is no pod's"


def are_alone(*given):
    """Whether each share's idle time counts, which is at once, by pod."""
    with mock.patch("agent.container_use.IDLE_SECONDS", 0):
        return {use.name.pod: use.idle_since is not None for use in of_one_pod(*given)[1].uses}


def test_nobody_is_idle_while_a_process_that_may_be_theirs_runs_kernels():
    still = RunningProcess(10, 5120)
    working = still, RunningProcess(12, 100, 10)
    assert are_alone(TWO, {10: CUDA}, (still,)) == {"train": True, "idle": True}
    assert are_alone(TWO, {10: CUDA}, (still, RunningProcess(12, 100)), OF_ENDED) == {"train": True}
    assert are_alone(TWO, {10: CUDA}, working, OF_ENDED) == {"train": False}
    of_node = are_alone(TWO, {10: CUDA}, working, OF_NODE)
    assert of_node == {"train": False, "idle": False}, "it may run kernels of others"


def test_no_pod_is_idle_that_holds_a_gpu_which_is_not_measured():
    whole = {("train", "other"): {"nvidia.com/gpu": ["GPU-strange"]}}
    assert are_alone(TWO | whole, {10: CUDA}) == {"train": False, "idle": True}
    network = {("train", "other"): {"rdma/hca": ["mlx5_0"]}}
    assert are_alone(TWO | network, {10: CUDA}) == {"train": True, "idle": True}


def test_without_the_containers_names_nothing_is_said_of_them_and_of_a_lost_gpu_nothing_at_all():
    samples, state = measured(TWO, card(0, processes=(RunningProcess(10, 5),)), card(1, lost=True))
    assert (state.uses, state.unlimited) == (None, None)
    used_bytes = [key for key in samples if "memory_used_bytes" in key[0]]
    assert used_bytes == [("gpu_memory_used_bytes", "0", "GPU-0")]


def test_programs_of_a_share_without_the_limiter_are_counted_and_their_pod_is_named():
    maps = {10: CUDA, 11: CUDA + LIMITER.format(""), 12: CUDA + LIMITER.format(" (deleted)")}
    samples, state = of_one_pod(SHARE, maps)
    assert samples[UNLIMITED] == 1
    assert state.unlimited == (Unlimited("default", "train", POD_UID, "main", FIRST, 0, 10240),)
    samples, state = of_one_pod(SHARE, {10: CUDA + LIMITER.format("")})
    assert (samples[UNLIMITED], state.unlimited) == (0, ())


@pytest.mark.parametrize(
    ("held", "maps"),
    [(WHOLE, CUDA), ({}, CUDA), (SHARE, None), (SHARE, ""), (SHARE, CUDA * (MAX_MAPS // len(CUDA) + 2))],
    ids=["whole GPU", "no share", "unreadable", "ended", "too many mappings"],
)
def test_programs_that_need_no_limiter_or_cannot_be_checked_are_not_counted(held, maps):
    samples, state = of_one_pod(held, {10: maps})
    assert (UNLIMITED in samples, state.unlimited) == (False, ())


def test_it_is_unknown_without_a_library_to_look_for():
    no_library = msgspec.structs.replace(PER_GPU, limiter=LimiterPart(name="none"))
    assert of_one_pod(SHARE, {10: CUDA}, policy=no_library)[1].unlimited is None


def test_each_process_is_looked_at_once_and_so_many_at_a_time(tmp_path):
    check = LimiterCheck(PER_GPU.limiter, tmp_path)
    processes = [(pid, FIRST) for pid in range(MAX_LOOKS + 1)]
    for pid, _ in processes:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(CUDA)
    assert len(check.has_limiter(processes)) == MAX_LOOKS
    shutil.rmtree(tmp_path)
    assert len(check.has_limiter(processes)) == MAX_LOOKS
    assert check.has_limiter([(0, SECOND)]) == {}
