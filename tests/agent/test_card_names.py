"""Names of cards, from specifications that change."""

import json

import pytest

from agent.card_names import CardNames, choose_names
from agent.cdi import CdiError
from agent.gpu import Gpu

CARD = Gpu(0, "GPU-0", "NVIDIA A100", 40960)


def write_names(folder, *names):
    """Write a specification again, as NVIDIA's toolkit does."""
    fresh = folder / "fresh"
    fresh.write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": each} for each in names]}))
    fresh.rename(folder / "nvidia.json")


async def test_a_card_keeps_its_name_while_no_specification_names_it(tmp_path):
    names = CardNames([str(tmp_path)])
    write_names(tmp_path, "0")
    await names.read([CARD])
    write_names(tmp_path, "all")
    with pytest.raises(CdiError, match="names GPU 0"):
        await names.read([CARD])
    assert names.names == {"GPU-0": "nvidia.com/gpu=0"}
    write_names(tmp_path, "GPU-0")
    await names.read([CARD])
    assert names.names == {"GPU-0": "nvidia.com/gpu=GPU-0"}


def test_what_nvidias_device_plugin_leaves_behind_names_no_card():
    """It is as old as the plugin's last start, and names files of the driver of then."""
    left = {"k8s.device-plugin.nvidia.com/gpu": {"GPU-0": None}}
    with pytest.raises(CdiError, match="names GPU 0"):
        choose_names(left, [CARD], ["/var/run/cdi"])
    ours = {"clearml-injector.io/card": {"GPU-0": None}}
    assert choose_names(left | ours, [CARD], []) == {"GPU-0": "clearml-injector.io/card=GPU-0"}
