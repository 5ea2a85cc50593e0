"""Names of cards that cannot be read are asked for again, and cost nothing that runs at the same time."""

import asyncio
import errno
import json
import os

import pytest

from agent.card_names import CardNames, choose_names
from agent.cdi import CdiError
from agent.child_process import ChildError
from agent.gpu import Gpu
from tests.agent.support.child import printed_by

CARD = Gpu(0, "GPU-0", "NVIDIA A100", 40960)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Files are read in this process."""
    monkeypatch.setattr("agent.card_names.printed_by", printed_by)


class EnoughError(Exception):
    """Ends what would go on."""


def write_names(folder, *names):
    """Write a specification again, as NVIDIA's toolkit does."""
    fresh = folder / "fresh"
    fresh.write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": each} for each in names]}))
    fresh.rename(folder / "nvidia.json")


async def no_process(*_):
    """A node that has no process to spare."""
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


async def ends_with_an_error(*_):
    """A process that is killed while it reads."""
    raise ChildError("exit code -9")


@pytest.mark.parametrize("fails", [no_process, ends_with_an_error])
def test_names_are_read_again_after_a_process_that_failed(tmp_path, monkeypatch, fails):
    async def read():
        names = CardNames([str(tmp_path)])
        write_names(tmp_path, "0")
        await names.read([CARD])
        write_names(tmp_path, "GPU-0")
        with monkeypatch.context() as broken:
            broken.setattr("agent.card_names.printed_by", fails)
            with pytest.raises(CdiError, match="cannot be read"):
                await names.read([CARD])
            assert names.names == {"GPU-0": "nvidia.com/gpu=0"}
        await names.read([CARD])
        assert names.names == {"GPU-0": "nvidia.com/gpu=GPU-0"}

    asyncio.run(read())


def test_what_nvidias_device_plugin_leaves_behind_names_no_card():
    """It is as old as the plugin's last start, and names files of the driver of then."""
    left = {"k8s.device-plugin.nvidia.com/gpu": {"GPU-0": None}}
    with pytest.raises(CdiError, match="names GPU 0"):
        choose_names(left, [CARD], ["/var/run/cdi"])
    ours = {"clearml-injector.io/card": {"GPU-0": None}}
    assert choose_names(left | ours, [CARD], []) == {"GPU-0": "clearml-injector.io/card=GPU-0"}


def test_names_are_still_followed_when_no_process_can_start(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.card_names.POLL_SECONDS", 0)

    async def follow():
        names, turns = CardNames([str(tmp_path)]), 0

        def count():
            nonlocal turns
            turns += 1
            if turns == 3:
                raise EnoughError

        monkeypatch.setattr("agent.card_names.beat", count)
        with pytest.raises(EnoughError):
            await names.follow([CARD])

    monkeypatch.setattr("agent.card_names.printed_by", no_process)
    asyncio.run(follow())
