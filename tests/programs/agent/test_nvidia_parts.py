"""NVIDIA's own programs over the library with NVML's ABI: what they do, and what our agent makes of it."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from agent.card_names import CardNames
from agent.cdi import CdiError
from agent.gpu import Gpu
from testbed.nvidia.cards import Card, NvmlNode, Xid
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import node_folder, until
from tests.agent.support.nvidia import nvidia_programs

FIRST, SECOND = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
CARDS = Card(FIRST), Card(SECOND, minor=1)

HOOK = Path("/usr/local/nvidia/toolkit/nvidia-cdi-hook")


@pytest.fixture(scope="module")
def programs(say):
    """NVIDIA's programs."""
    return nvidia_programs(say)


@pytest.fixture
def driver(tmp_path, programs):
    """A driver with two cards."""
    return DriverRoot(tmp_path / "driver", NvmlNode(CARDS))


def cards_of(programs, driver, output, vendor="example.com"):
    """What the toolkit writes of the cards."""
    programs.generate_cards(driver, vendor, output, HOOK)
    return yaml.safe_load(output.read_text())


def management_of(programs, driver, output):
    """What it writes as a part of the GPU operator."""
    programs.generate_management(driver, output, HOOK)
    return yaml.safe_load(output.read_text())


def test_the_toolkit_names_each_card_by_uuid_with_its_device_node_and_the_hook_that_limits(
    programs, driver, tmp_path
):
    content = cards_of(programs, driver, tmp_path / "cards.yaml")
    assert content["kind"] == "example.com/gpu"
    devices = {each["name"]: each["containerEdits"] for each in content["devices"]}
    assert set(devices) == {FIRST, SECOND, "all"}
    [node] = devices[SECOND]["deviceNodes"]
    assert (node["path"], node["hostPath"]) == ("/dev/nvidia1", f"{driver.folder}/dev/nvidia1")
    [hook] = devices[SECOND]["hooks"]
    assert hook["path"] == str(HOOK)
    assert hook["args"][1:] == [
        "apply-cuda-memory-limits",
        "--driver-root",
        str(driver.folder),
        "--gpu-id",
        SECOND,
    ]
    mounted = [each["hostPath"] for each in content["containerEdits"]["mounts"]]
    assert f"{driver.libraries}/libcuda.so.595.71.05" in mounted
    verbs = [each["args"][1] for each in content["containerEdits"]["hooks"]]
    assert {"create-symlinks", "enable-cuda-compat", "update-ldcache"} <= set(verbs)


async def names(folder):
    """The CDI devices that our agent finds for the cards."""
    found = CardNames([str(folder)])
    await found.read([Gpu(number, card.uuid, card.name, 40960) for number, card in enumerate(CARDS)])
    return found


async def test_our_agent_finds_the_cards_of_the_toolkit_and_their_hooks(programs, driver, tmp_path):
    cards_of(programs, driver, tmp_path / "nvidia.yaml", "nvidia.com")
    found = await names(tmp_path)
    assert found.names == {FIRST: f"nvidia.com/gpu={FIRST}", SECOND: f"nvidia.com/gpu={SECOND}"}
    assert set(found.limit_hooks) == {FIRST, SECOND}
    assert found.limit_hooks[SECOND].path == str(HOOK)


async def test_the_one_device_of_all_cards_is_no_name_of_a_card(programs, driver, tmp_path):
    management_of(programs, driver, tmp_path / "management.yaml")
    with pytest.raises(CdiError, match="names GPU 0"):
        await names(tmp_path)


SHOW = 'mount -t tmpfs none /var/lib && mkdir -p "$0" && mount --bind "$1" "$0" && shift && exec "$@"'
"""The plugin's folder cannot be said: it sees its own there."""


@contextlib.asynccontextmanager
async def plugin_of(programs, driver, plugins):
    """NVIDIA's device plugin and a kubelet with this folder of plugins."""
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "sh", "-c", SHOW, "/var/lib/kubelet/device-plugins", str(plugins)),
        str(programs.device_plugin),
        f"--nvidia-driver-root={driver.folder}",
        f"--driver-root-ctr-path={driver.folder}",
        env={**os.environ, **driver.environment},
        stdout=subprocess.DEVNULL,  # its log is on stderr
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def test_the_device_plugin_registers_whole_cards_prefers_some_and_reports_an_xid(programs, driver):
    with node_folder() as node:
        plugins = node.root / "device-plugins"
        async with kubelet_in(node.root) as kubelet, plugin_of(programs, driver, plugins):
            await kubelet.until_offered("nvidia.com/gpu", 2)
            assert set(kubelet.devices["nvidia.com/gpu"]) == {FIRST, SECOND}
            assert await kubelet.prefer("nvidia.com/gpu", [FIRST, SECOND], 1) in ([FIRST], [SECOND])
            happened = []

            def happen_again():  # it begins to wait for events when it likes
                happened.append(Xid(SECOND, 79))
                driver.write(NvmlNode(CARDS, events=tuple(happened)))
                return kubelet.devices["nvidia.com/gpu"] == {FIRST: "Healthy", SECOND: "Unhealthy"}

            await until(happen_again)
