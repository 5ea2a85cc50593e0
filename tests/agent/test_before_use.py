"""Nothing that was changed on the node meanwhile limits a share."""

import asyncio
import dataclasses
import hashlib

import grpc
import msgspec
import pytest

from agent.before_use import BeforeUse
from agent.card_names import CardNames
from agent.limiter_library import LimiterLibrary
from agent.options import AgentOptions
from agent.parallel_start import Begun
from agent.policy import PolicyReading, PolicyWatch
from agent.process import AgentProcess
from agent.settings import LimiterPart
from agent.shares import RefusedError
from testbed.nodes.agent import LIMITS_BY_AGENT
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import HAMI, PER_GPU, card, ids, node_folder, running, served

NAME = "nvidia.com/gpu-0"


def run(test):
    """Run a test that is a coroutine."""
    return lambda: asyncio.run(test())


@run
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


@run
async def test_a_library_that_cannot_be_put_back_is_not_used():
    async with served(card(0)) as (node, kubelet):
        (node.root / "state" / "library" / "libvgpu.so").write_bytes(b"no limiter")
        for call in (kubelet.allocate, kubelet.pre_start):
            with pytest.raises(grpc.aio.AioRpcError, match="is not what it was when the agent started"):
                await call(NAME, *ids(0, 0))


def test_two_containers_that_start_at_once_are_checked_one_after_the_other(tmp_path):
    running, most = [], []

    class Watched(LimiterLibrary):
        def check(self):
            running.append(self)
            most.append(len(running))
            hashlib.sha256(bytes(1 << 22))  # others may run meanwhile
            running.pop()

    async def check():
        watch = PolicyWatch(AgentOptions(policies=str(tmp_path)), PER_GPU)
        before_use = BeforeUse(watch, Watched(LimiterPart("none"), tmp_path, None), None)
        await asyncio.gather(*(before_use.check() for _ in range(20)))

    asyncio.run(check())
    assert most == [1] * 20


def test_a_policy_that_is_not_confirmed_gives_no_share(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.before_use.CONFIRM_SECONDS", 0)

    async def check():
        watch = PolicyWatch(AgentOptions(policies=str(tmp_path)), PER_GPU, frozenset())
        with pytest.raises(RefusedError, match="the policies of this node's agent do not compile"):
            await BeforeUse(watch, LimiterLibrary(HAMI, tmp_path, None), None).check()

    asyncio.run(check())


@run
async def test_a_forged_policy_gives_no_share_and_the_agent_starts_again():
    forged = msgspec.structs.replace(PER_GPU, limiter=LimiterPart("none"))
    with node_folder() as node:
        node.write_gpus(card(0))
        node.write_card_names("GPU-0")
        (node.root / "policies").mkdir()
        (node.root / "policies" / "default.yaml").write_text(LIMITS_BY_AGENT)
        kept = PolicyReading(frozenset(), forged, node.root / "state")
        begun = Begun(kept, CardNames(node.options.cdi_dirs))
        process = AgentProcess(node.options, forged, node.open_driver(), (), begun)
        async with kubelet_in(node.root) as kubelet:
            serving = asyncio.ensure_future(process.serve())
            await kubelet.until_offered(NAME)
            # It is refused, or the kubelet's channel ends with the agent.
            with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
                await kubelet.allocate(NAME, *ids(0, 0))
            assert await serving
