"""Nothing that was changed on the node meanwhile limits a share."""

import asyncio
import dataclasses
import hashlib

import grpc
import pytest

from agent.limiter_library import LimiterLibrary
from agent.options import AgentOptions
from agent.preparation import Preparation
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import agent_with, card, ids, node_folder, running, served

NAME = "nvidia.com/gpu-0"


async def test_a_library_that_was_replaced_is_put_back_before_it_is_used():
    with node_folder() as node:
        source, on_node = node.root / "pod", node.root / "state" / "library" / "libvgpu.so"
        source.mkdir()
        (source / "libvgpu.so").write_bytes(b"the limiter")
        node.options = dataclasses.replace(node.options, library=str(source))
        node.write_gpus(card(0))
        node.write_card_names("GPU-0")
        async with kubelet_in(node.root) as kubelet, running(node):
            await kubelet.until_offered(NAME)
            assert on_node.read_bytes() == b"the limiter"
            on_node.write_bytes(b"no limiter")
            await kubelet.allocate(NAME, *ids(0, 0))
            assert on_node.read_bytes() == b"the limiter"
            on_node.write_bytes(b"no limiter")
            await kubelet.pre_start(NAME, *ids(0, 0))
            assert on_node.read_bytes() == b"the limiter"


async def test_a_library_that_cannot_be_put_back_is_not_used():
    async with served(card(0)) as (node, kubelet):
        (node.root / "state" / "library" / "libvgpu.so").write_bytes(b"no limiter")
        for call in (kubelet.allocate, kubelet.pre_start):
            with pytest.raises(grpc.aio.AioRpcError, match="is not what it was when the agent started"):
                await call(NAME, *ids(0, 0))


def test_two_containers_that_start_at_once_are_checked_one_after_the_other(tmp_path, monkeypatch):
    running, most = [], []

    def check(library):
        running.append(library)
        most.append(len(running))
        hashlib.sha256(bytes(1 << 22))  # others may run meanwhile
        running.pop()

    async def check_all():
        preparation = Preparation(agent_with(options=AgentOptions(state_dir=str(tmp_path))))
        await asyncio.gather(*(preparation.check_files() for _ in range(20)))

    monkeypatch.setattr(LimiterLibrary, "check", check)
    asyncio.run(check_all())
    assert most == [1] * 20
