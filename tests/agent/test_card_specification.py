"""The agent has a generator name its cards where nobody else does; `tests/programs` has NVIDIA's."""

import dataclasses
import json
import shutil

import pytest

from agent.card_specification import FILE, KIND
from tests.agent.support.node import card, ids, node_with, ready, running, until, until_says

HOST_ROOT = "/run/nvidia/driver"
CARDS = card(0), card(1, 81920)
GENERATOR = """#!/bin/sh
for each; do case "$each" in --output=*) cp "$0.json" "${each#--output=}";; esac; done
"""


class OperatorNode:
    """A node as NVIDIA's GPU operator leaves it: a driver in a folder of its own, and a generator."""

    def __init__(self, node, kubelet):
        self.node, self.kubelet = node, kubelet
        self.driver = node.root / "driver"
        self.generator = node.root / "nvidia-ctk"
        self.generator.write_text(GENERATOR)
        self.generator.chmod(0o755)
        self.install("595.71.05")
        node.write_card_names()
        self.set(nvidia_ctk=str(self.generator))

    def install(self, version, *cards):
        """Put a driver there in place of what was there; the generator sees some cards, or both."""
        shutil.rmtree(self.driver, ignore_errors=True)
        self.driver.mkdir()
        library = f"libcuda.so.{version}"
        (self.driver / library).touch()
        names = *(each.uuid for each in cards or CARDS), "all"
        devices = [{"name": each, "containerEdits": {}} for each in names]
        common = {"mounts": [{"hostPath": f"{HOST_ROOT}/{library}"}]}
        content = {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices, "containerEdits": common}
        self.generator.with_name("nvidia-ctk.json").write_text(json.dumps(content))

    def set(self, **more):
        roots = {"driver_root": str(self.driver), "host_driver_root": HOST_ROOT}
        self.node.options = dataclasses.replace(self.node.options, **roots, **more)

    def read(self):
        """Our devices of cards, and what they have in common."""
        content = json.loads((self.node.cdi / FILE).read_text())
        return {each["name"] for each in content["devices"]}, content["containerEdits"]

    async def allocate(self, index, *slices):
        """Wait until both cards are offered, and return the names that a container gets of one."""
        for name in ("nvidia.com/gpu-0", "nvidia.com/gpu-1"):
            await self.kubelet.until_offered(name)
        answer = await self.kubelet.allocate(f"nvidia.com/gpu-{index}", *ids(index, *slices))
        return [each.name for each in answer.cdi_devices]


@pytest.fixture
async def operator():
    async with node_with(*CARDS) as (node, kubelet):
        yield OperatorNode(node, kubelet)


async def test_cards_have_a_device_each_and_all_of_them_together_none(operator):
    async with running(operator.node):
        named = await operator.allocate(1, 0, 1, 2)
    assert named == [f"{KIND}=GPU-1", "clearml-injector.io/slices=GPU-1-3-of-8"]
    assert operator.read()[0] == {"GPU-0", "GPU-1"}


async def test_after_an_upgrade_of_the_driver_its_new_files_are_named(operator, monkeypatch):
    monkeypatch.setattr("agent.preparation.POLL_SECONDS", 0.05)
    async with running(operator.node):
        await operator.allocate(0, 0)
        operator.install("615.10.02")
        new = {"mounts": [{"hostPath": f"{HOST_ROOT}/libcuda.so.615.10.02"}]}
        await until(lambda: operator.read()[1] == new)


@pytest.mark.parametrize("ctk", ["/bin/false", "/no/such/nvidia-ctk"])
async def test_a_generator_that_fails_is_named_by_readyz(operator, ctk):
    operator.set(nvidia_ctk=ctk)
    async with running(operator.node) as process:
        await until_says(process, "names GPU 0")
        assert ctk in (await ready(process)).text
    assert not operator.kubelet.devices


async def test_a_generator_that_fails_says_the_same_each_time(operator):
    operator.generator.write_text("#!/bin/sh\necho 'time=\"'$(date +%N)'\" level=error' >&2; exit 1\n")
    async with running(operator.node) as process:
        await until_says(process, "cdi generate failed: level=error")


async def test_a_generator_that_fails_takes_nothing_from_cards_that_have_names(operator):
    operator.set(nvidia_ctk="/bin/false")
    operator.node.write_card_names("GPU-0", "GPU-1")
    async with running(operator.node):
        assert (await operator.allocate(0, 0))[0] == "nvidia.com/gpu=GPU-0"


async def test_a_generator_that_does_not_see_every_card_fails(operator):
    operator.install("595.71.05", CARDS[0])
    async with running(operator.node) as process:
        await until_says(process, "names no GPU-1")
    assert not (operator.node.cdi / FILE).exists()


async def test_a_node_whose_cards_all_stay_whole_gets_no_file(operator):
    # A runtime refuses a file without a device.
    operator.set(divide=("H100",))
    async with running(operator.node) as process:
        await until_says(process, None)
    assert not (operator.node.cdi / FILE).exists()
