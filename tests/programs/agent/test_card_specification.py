"""NVIDIA's own generator names the cards for the agent, as tests/agent does it with one of its own."""

import dataclasses
import json
from pathlib import Path

import pytest

from agent.card_specification import FILE, KIND
from testbed.nvidia.cards import NvmlNode
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids, node_folder, running
from tests.agent.support.nvidia import nvidia_programs

HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
HOST_ROOT = "/run/nvidia/driver"
CARDS = card(0), card(1, 81920)
NAMES = "nvidia.com/gpu-0", "nvidia.com/gpu-1"


@pytest.fixture(scope="module")
def programs(say):
    return nvidia_programs(say)


class OperatorNode:
    """A node as NVIDIA's GPU operator leaves it: a driver in a folder of its own, one device of all cards."""

    def __init__(self, node, programs):
        self.node = node
        self.driver = DriverRoot(node.root / "driver", NvmlNode(CARDS))
        management = node.cdi / "management.nvidia.com-gpu.yaml"
        programs.generate_management(self.driver, management, Path(HOOK))
        node.write_gpus(*CARDS)
        node.options = dataclasses.replace(
            node.options,
            nvidia_ctk=str(programs.ctk),
            nvidia_cdi_hook=HOOK,
            driver_root=str(self.driver.folder),
            host_driver_root=HOST_ROOT,
        )

    @property
    def devices(self):
        """Our devices of cards by name, and what they have in common."""
        content = json.loads((self.node.cdi / FILE).read_text())
        assert content["kind"] == KIND
        devices = {each["name"]: each["containerEdits"] for each in content["devices"]}
        return devices, content["containerEdits"]


@pytest.fixture
def operator(programs):
    with node_folder() as node:
        yield OperatorNode(node, programs)


async def offered(kubelet):
    for name in NAMES:
        await kubelet.until_offered(name)


async def test_on_a_stock_node_of_the_gpu_operator_the_agent_offers_its_cards(operator):
    async with kubelet_in(operator.node.root) as kubelet, running(operator.node):
        await offered(kubelet)
        answer = await kubelet.allocate(NAMES[1], *ids(1, 0, 1, 2))
    assert [each.name for each in answer.cdi_devices] == [
        f"{KIND}=GPU-1",
        "clearml-injector.io/slices=GPU-1-3-of-8",
    ]
    devices, common = operator.devices
    # No device of all cards: a container that gets it would have them all.
    assert set(devices) == {"GPU-0", "GPU-1"}
    [node] = devices["GPU-1"]["deviceNodes"]
    assert (node["path"], node["hostPath"]) == ("/dev/nvidia1", f"{HOST_ROOT}/dev/nvidia1")
    mounted = {each["hostPath"] for each in common["mounts"]}
    assert f"{HOST_ROOT}/usr/lib64/libcuda.so.595.71.05" in mounted
    assert {each["path"] for each in common["hooks"]} == {HOOK}
