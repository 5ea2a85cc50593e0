"""The agent as a process: it stays small with eight GPUs, and does not grow with what it is asked."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.product import COMMAND
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids, node_folder

MAX_RSS_MIB = 52
"""NVIDIA's bindings take 3 of them."""
GPUS = 8
ALLOCATIONS = int(os.environ.get("AGENT_ALLOCATIONS", "2000"))

pytestmark = pytest.mark.slow


def rss_mib(pid):
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


def started(node, log):
    policies = log.with_name("policies")
    policies.mkdir()
    (policies / "default.yaml").write_text(LIMITS_BY_AGENT)
    options = [
        f"--policies={policies}",
        f"--kubelet-dir={node.root}",
        f"--state-dir={node.options.state_dir}",
        f"--cdi-dir={node.cdi}",
        "--cdi-enabled",
        "--health-port=0",
    ]
    with log.open("wb") as output:
        return subprocess.Popen([COMMAND, "agent", *options], stderr=output)


async def allocate_all(kubelet, count):
    for number in range(count):
        index = number % GPUS
        slices = number // GPUS % 8 + 1
        await kubelet.allocate(f"nvidia.com/gpu-{index}", *ids(index, *range(slices)))
        await kubelet.pre_start(f"nvidia.com/gpu-{index}", *ids(index, *range(slices)))


def test_eight_gpus_take_less_than_52_mb_also_after_thousands_of_pods(capsys, tmp_path):
    log = tmp_path / "agent.log"

    async def live():
        with node_folder() as node:
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
