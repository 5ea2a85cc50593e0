"""Nothing that was changed on the node meanwhile limits a share."""

import grpc
import pytest

from tests.agent.support.node import card, ids, served

NAME = "nvidia.com/gpu-0"


async def test_a_library_that_was_replaced_is_put_back_before_it_is_used_or_not_used(tmp_path):
    (tmp_path / "libvgpu.so").write_bytes(b"the limiter")
    async with served(card(0), library=str(tmp_path)) as (node, kubelet):
        on_node = node.root / "state" / "library" / "libvgpu.so"
        for call in (kubelet.allocate, kubelet.pre_start):
            on_node.write_bytes(b"no limiter")
            await call(NAME, *ids(0, 0))
            assert on_node.read_bytes() == b"the limiter"
        on_node.unlink()
        on_node.mkdir()
        for call in (kubelet.allocate, kubelet.pre_start):
            with pytest.raises(grpc.aio.AioRpcError, match="cannot be written: Is a directory"):
                await call(NAME, *ids(0, 0))
