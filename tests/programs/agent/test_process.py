"""The agent as a process: it stays small with eight GPUs, and does not grow with what it is asked."""

import asyncio
import os
import sys

from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids
from tests.programs.agent.processes import node_for_processes, rss_mib, started

MAX_RSS_MIB = 52
"""NVIDIA's bindings take 3 of them."""
GPUS = 8
ALLOCATIONS = int(os.environ.get("AGENT_ALLOCATIONS", "2000"))


async def allocate_all(kubelet, count):
    for number in range(count):
        index = number % GPUS
        slices = number // GPUS % 8 + 1
        await kubelet.allocate(f"nvidia.com/gpu-{index}", *ids(index, *range(slices)))
        await kubelet.pre_start(f"nvidia.com/gpu-{index}", *ids(index, *range(slices)))


def test_eight_gpus_take_less_than_52_mb_also_after_thousands_of_pods(capsys, tmp_path):
    log = tmp_path / "agent.log"

    async def live():
        with node_for_processes() as node:
            node.write_gpus(*(card(index) for index in range(GPUS)))
            node.write_card_names(*(f"GPU-{index}" for index in range(GPUS)))
            async with kubelet_in(node.root) as kubelet:
                process = started(node, log)
                try:
                    for index in range(GPUS):
                        await kubelet.until_offered(f"nvidia.com/gpu-{index}")
                    await allocate_all(kubelet, 200)
                    early = rss_mib(process.pid)
                    await allocate_all(kubelet, ALLOCATIONS)
                    late = rss_mib(process.pid)
                finally:
                    process.terminate()
                    await asyncio.to_thread(process.wait)
        assert process.returncode == 0, log.read_text()
        return early, late

    early, late = asyncio.run(live())
    with capsys.disabled():
        sys.stdout.write(
            f"\nagent with {GPUS} GPUs: {early:.1f} MiB, after {ALLOCATIONS} pods {late:.1f} MiB\n"
        )
    assert late < MAX_RSS_MIB
    assert late - early < 2
