"""What containers may use and what they use, by the kubelet's books and the GPUs' processes."""

import asyncio
from dataclasses import replace

from prometheus_client import CollectorRegistry

from agent.allocate_response import SLICES_PER_GPU
from agent.cdi import KIND
from agent.gpu import Gpu
from agent.kubelet_api.deviceplugin_pb2 import ContainerAllocateResponse
from agent.state import AgentState
from agent.usage import Usage
from testbed.nvidia.cards import RunningProcess
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import PER_GPU, card, ids, node_folder

MIB = 1024 * 1024
FIRST, SECOND = "a" * 64, "b" * 64


def measured(held, *cards, links=(), groups=None, checkpoint=()):
    """All samples after one measurement, by name and labels."""

    async def measure():
        registry = CollectorRegistry()
        with node_folder() as node:
            options = replace(
                node.options, container_logs=str(node.root / "logs"), proc=str(node.root / "proc")
            )
            if links:
                (node.root / "logs").mkdir()
            for link in links:
                (node.root / "logs" / link).touch()
            for pid, group in (groups or {}).items():
                (node.root / "proc" / str(pid)).mkdir(parents=True)
                (node.root / "proc" / str(pid) / "cgroup").write_text(group)
            node.write_gpus(*cards)
            gpus = [Gpu(number, each.uuid, each.name, each.memory_mib) for number, each in enumerate(cards)]
            state = AgentState(gpus)
            source = node.open_driver()
            usage = Usage(options, PER_GPU, state, source, registry)
            async with kubelet_in(node.root) as kubelet:
                kubelet.held = held
                kubelet.write_checkpoint(*checkpoint)
                await usage.measure()
                await usage.measure()
            source.close()
        return {
            (sample.name.removeprefix("fraction_injector_agent_"), *sample.labels.values()): sample.value
            for family in registry.collect()
            for sample in family.samples
        }

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
    answer = ContainerAllocateResponse(annotations={SLICES_PER_GPU: "4"})
    checkpoint = [
        ("uid-1", "main", "nvidia.com/gpu-0", pool, ("nvidia.com/gpu=0", f"{KIND}=GPU-0-2-of-4")),
        ("uid-2", "main", "nvidia.com/gpu-1", whole, answer),
        ("uid-3", "main", "nvidia.com/gpu-2", gone, ("nvidia.com/gpu=2", f"{KIND}=GPU-2-2-of-16")),
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
        groups={
            10: f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{FIRST}.scope\n",
            11: f"5:memory:/kubepods/burstable/pod1/{FIRST}\n",
            12: f"0::/kubepods/pod2/{SECOND}\n",
            13: "0::/system.slice/ssh.service\n",
        },
    )
    assert samples["container_memory_used_bytes", "work", "train", "main", "0"] == 150 * MIB
    assert samples["container_memory_used_bytes", "work", "other-pod", "a-b", "0"] == 7 * MIB
    assert len([key for key in samples if key[0] == "container_memory_used_bytes"]) == 2
    assert samples["gpu_memory_used_bytes", "0", "GPU-0"] == 200 * MIB
    assert samples["gpu_utilisation_ratio", "0", "GPU-0"] == 0.75


def test_a_node_that_shows_no_processes_and_a_lost_gpu_have_no_series():
    samples = measured({}, card(0, processes=(RunningProcess(10, 5),)), card(1, lost=True))
    assert [key for key in samples if key[0].startswith("container")] == []
    assert ("gpu_memory_used_bytes", "0", "GPU-0") in samples
    assert ("gpu_memory_used_bytes", "1", "GPU-1") not in samples
