"""Nothing that was changed on the node meanwhile limits a share."""

import dataclasses

import grpc
import pytest

from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids, node_folder, running, served

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
