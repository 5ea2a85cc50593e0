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
from testbed.nvidia.cards import Card, MigInstance, NvmlNode, Xid
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import node_folder, until
from tests.agent.support.nvidia import nvidia_programs

FIRST, SECOND = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
CARDS = Card(FIRST), Card(SECOND, minor=1)
DIVIDED = (
    MigInstance("MIG-aaaaaaaa-1111-1111-1111-111111111111", 1, 3, 20096),
    MigInstance("MIG-bbbbbbbb-1111-1111-1111-111111111111", 2, 1, 4864, start=4),
)

HOOK = Path("/usr/local/nvidia/toolkit/nvidia-cdi-hook")


@pytest.fixture(scope="module")
def programs(say):
    """NVIDIA's programs."""
    return nvidia_programs(say)


@pytest.fixture
def driver(tmp_path, programs):
    """A driver with two cards."""
    return DriverRoot(tmp_path / "driver", NvmlNode(CARDS))


def run(driver, *command):
    """Run a program that finds this driver, to its end."""
    found = {**os.environ, **driver.environment}
    return subprocess.run(list(map(str, command)), env=found, capture_output=True, text=True, check=True)


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


def test_a_driver_that_was_upgraded_has_other_files(programs, driver, tmp_path):
    driver.install(NvmlNode(CARDS, driver="615.10.02"))
    content = cards_of(programs, driver, tmp_path / "cards.yaml")
    mounted = [each["hostPath"] for each in content["containerEdits"]["mounts"]]
    assert f"{driver.libraries}/libcuda.so.615.10.02" in mounted
    assert not [each for each in mounted if "595" in each]


def test_the_management_mode_of_the_gpu_operator_names_one_device_with_all_cards(programs, driver, tmp_path):
    content = management_of(programs, driver, tmp_path / "management.nvidia.com-gpu.yaml")
    assert content["kind"] == "management.nvidia.com/gpu"
    assert [each["name"] for each in content["devices"]] == ["all"]
    nodes = [each["path"] for each in content["devices"][0]["containerEdits"]["deviceNodes"]]
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= set(nodes)


async def names(folder):
    """The CDI devices that our agent finds for the cards."""
    found = CardNames([str(folder)])
    await found.read([Gpu(number, card.uuid, card.name, 40960) for number, card in enumerate(CARDS)])
    return found


def test_our_agent_finds_the_cards_of_the_toolkit_and_their_hooks(programs, driver, tmp_path):
    cards_of(programs, driver, tmp_path / "nvidia.yaml", "nvidia.com")
    found = asyncio.run(names(tmp_path))
    assert found.names == {FIRST: f"nvidia.com/gpu={FIRST}", SECOND: f"nvidia.com/gpu={SECOND}"}
    assert set(found.limit_hooks) == {FIRST, SECOND}
    assert found.limit_hooks[SECOND].path == str(HOOK)


def test_the_one_device_of_all_cards_is_no_name_of_a_card(programs, driver, tmp_path):
    management_of(programs, driver, tmp_path / "management.yaml")
    with pytest.raises(CdiError, match="names GPU 0"):
        asyncio.run(names(tmp_path))


def discover(programs, driver, *options):
    """The labels that GPU feature discovery writes for a node."""
    file = driver.folder / "gfd"
    given = (
        f"--output-file={file}",
        f"--driver-root-ctr-path={driver.folder}",
        "--machine-type-file=/dev/null",
    )
    fixed = "--oneshot", "--use-node-feature-api=false", "--no-timestamp"
    run(driver, programs.feature_discovery, *fixed, *given, *options)
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def test_gpu_feature_discovery_labels_the_node_of_the_file(programs, driver):
    labels = discover(programs, driver)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert labels["nvidia.com/gpu.memory"] == "40960"
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/cuda.driver-version.full"] == "595.71.05"
    assert labels["nvidia.com/gpu.family"] == "ampere"


def test_gpu_feature_discovery_counts_the_instances_of_a_divided_card(programs, driver):
    driver.write(NvmlNode((Card(FIRST, mig=True, instances=DIVIDED),)))
    labels = discover(programs, driver, "--mig-strategy=mixed")
    assert labels["nvidia.com/mig-3g.20gb.count"] == "1"
    assert labels["nvidia.com/mig-1g.5gb.count"] == "1"
    assert labels["nvidia.com/mig-1g.5gb.memory"] == "4864"


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


def test_the_device_plugin_registers_whole_cards_prefers_some_and_reports_an_xid(programs, driver):
    async def become_unhealthy():
        with node_folder() as node:
            async with (
                kubelet_in(node.root) as kubelet,
                plugin_of(programs, driver, node.root / "device-plugins"),
            ):
                await kubelet.until_offered("nvidia.com/gpu", 2)
                assert set(kubelet.devices["nvidia.com/gpu"]) == {FIRST, SECOND}
                assert await kubelet.prefer("nvidia.com/gpu", [FIRST, SECOND], 1) in ([FIRST], [SECOND])
                happened = []

                def happen_again():  # it begins to wait for events when it likes
                    happened.append(Xid(SECOND, 79))
                    driver.write(NvmlNode(CARDS, events=tuple(happened)))
                    return kubelet.devices["nvidia.com/gpu"] == {FIRST: "Healthy", SECOND: "Unhealthy"}

                await until(happen_again)

    asyncio.run(become_unhealthy())
