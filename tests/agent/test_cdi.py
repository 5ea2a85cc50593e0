"""NVIDIA's CDI specifications are found whatever their kind; ours are written whole, and kept while used."""

import json
import os

import pytest
from msgspec.structs import replace

from agent.card_names import choose_names
from agent.card_specification import KIND as KIND_OF_CARDS
from agent.cdi import KIND, CdiError, SliceSpecifications
from agent.cdi_reader import LIMIT_HOOK, MAX_BYTES, card_devices
from agent.driver_limits import LimitHook
from agent.gpu import Gpu
from agent.settings import LimiterPart
from agent.shares import Share
from tests.agent.support.node import PER_GPU

CARD = Gpu(0, "GPU-0", "NVIDIA A100", 40960)


def test_names_are_found_in_yaml_and_json_and_invalid_files_are_skipped(tmp_path):
    """Whoever walks a text that names itself a hundred times a level never ends; nor does a pipe."""
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 30))
    files = {
        "nvidia.yaml": 'kind: nvidia.com/gpu\ndevices: [{name: "0"}, {name: GPU-0}, {name: all}, {name: 7}]',
        "more.json": '{"kind": "runtime.nvidia.com/gpu", "devices": [{"name": "a"}]}',
        "other.json": '{"kind": "example.com/nic", "devices": [{"name": "a"}]}',
        "large.yaml": "kind: nvidia.com/gpu\ndevices: [{name: 9}]\n" + "#" * MAX_BYTES,
        "broken.yaml": "kind: [",
        "list.yaml": "- 1",
        "overflow.yaml": f"kind: {':'.join(['60'] * 400)}.0",
        "deep.yaml": "[" * 4000,
        "bomb.yaml": f"kind: nvidia.com/gpu\nl0: &l0 x\n{levels}\ndevices: [{{name: *l29}}, {{name: 8}}]\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "pipe.yaml")
    of_nvidia = [f"nvidia.com/gpu={name}" for name in ("0", "GPU-0", "all", "7")]
    found = dict.fromkeys([*of_nvidia, "runtime.nvidia.com/gpu=a"])
    assert card_devices([tmp_path, tmp_path / "missing"]) == found


PATH, ARGS = "/usr/bin/nvidia-cdi-hook", ("nvidia-cdi-hook", LIMIT_HOOK, "--gpu-id", "GPU-0")
HOOK = {"path": PATH, "args": list(ARGS)}
OTHER = {"hookName": "createContainer", "path": PATH, "args": ["nvidia-cdi-hook", "chmod"]}


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({"hooks": [OTHER, {**HOOK, "env": ["A=b"]}]}, LimitHook(PATH, ARGS, ("A=b",))),
        ({"hooks": [HOOK]}, LimitHook(PATH, ARGS)),
        ({"hooks": [OTHER]}, None),
        ({"hooks": [{"path": PATH}]}, None),
        ({"hooks": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_hook_by_which_the_driver_limits_is_found(tmp_path, edits, found):
    content = {"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-0", "containerEdits": edits}]}
    (tmp_path / "nvidia.json").write_text(json.dumps(content))
    assert card_devices([tmp_path]) == {"nvidia.com/gpu=GPU-0": found}


OF_NVIDIA, OF_RUNTIME = "nvidia.com/gpu=", "runtime.nvidia.com/gpu="


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ([f"{OF_NVIDIA}0", f"{OF_NVIDIA}GPU-0"], f"{OF_NVIDIA}GPU-0"),
        ([f"{OF_NVIDIA}0", f"{OF_NVIDIA}all"], f"{OF_NVIDIA}0"),
        ([f"{OF_RUNTIME}all", f"{OF_RUNTIME}GPU-0", f"{OF_NVIDIA}0"], f"{OF_RUNTIME}GPU-0"),
        ([f"{OF_NVIDIA}GPU-0", f"{KIND_OF_CARDS}=GPU-0"], f"{KIND_OF_CARDS}=GPU-0"),
    ],
)
def test_a_card_goes_by_its_uuid_where_any_kind_knows_it(found, name):
    assert choose_names(dict.fromkeys(found), [CARD], ["/etc/cdi"]) == {"GPU-0": name}


def test_a_device_by_which_the_driver_limits_is_preferred():
    found = {f"{OF_NVIDIA}GPU-0": None, f"{OF_RUNTIME}0": LimitHook(PATH, ARGS)}
    assert choose_names(found, [CARD], ["/etc/cdi"]) == {"GPU-0": f"{OF_RUNTIME}0"}


def test_what_nvidias_device_plugin_leaves_behind_names_no_card():
    """It is as old as the plugin's last start, and names files of the driver of then."""
    with pytest.raises(CdiError, match="names GPU 0"):
        choose_names({"k8s.device-plugin.nvidia.com/gpu=GPU-0": None}, [CARD], ["/var/run/cdi"])


@pytest.fixture
def specifications(tmp_path):
    return SliceSpecifications(tmp_path, PER_GPU, "/state")


def devices_in(folder):
    """Edits of the devices in the one file of a folder."""
    [path] = folder.glob("*.json")
    return {each["name"]: each["containerEdits"] for each in json.loads(path.read_text())["devices"]}


EVERY_SHARE = [f"GPU-0-{slices}-of-{size}" for size in (2, 4, 8, 16) for slices in range(1, size)]


def test_every_share_of_a_card_has_a_device_before_anybody_asks(specifications, tmp_path):
    specifications.write(CARD)
    assert list(devices_in(tmp_path)) == EVERY_SHARE
    assert [path.name for path in tmp_path.iterdir()] == ["clearml-injector.io-slices-GPU-0.json"]


def test_a_container_that_starts_again_has_the_limit_of_the_slices_that_it_was_given(tmp_path):
    """Though the policy changed, and a reboot emptied the folder."""
    given = SliceSpecifications(tmp_path / "before", PER_GPU, "/state").name_of(Share(CARD, 2, 10240))
    SliceSpecifications(tmp_path / "after", replace(PER_GPU, slices_per_gpu=4), "/state").write(CARD)
    devices = devices_in(tmp_path / "after")
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=10240m" in devices[given.removeprefix(f"{KIND}=")]["env"]
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=20480m" in devices["GPU-0-2-of-4"]["env"]


def test_devices_of_another_policy_stay_for_containers_that_start_again(specifications, tmp_path):
    specifications.write(CARD)
    unlimited = replace(PER_GPU, limiter=LimiterPart("none"))
    SliceSpecifications(tmp_path, unlimited, "/state").write(CARD)
    assert list(devices_in(tmp_path)) == EVERY_SHARE


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CdiError, match="cannot be written"):
        SliceSpecifications(tmp_path / "file", PER_GPU, "/state").write(CARD)


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"devices": [{"name": "\xff"}]}', b'{"x": ' + b"[" * 100_000]
)
def test_a_file_of_ours_that_became_invalid_is_written_again(specifications, tmp_path, content):
    specifications.write(CARD)
    [path] = tmp_path.iterdir()
    path.write_bytes(content)
    specifications.write(CARD)
    assert list(devices_in(tmp_path)) == EVERY_SHARE
