"""What the kubelet answers is bounded, and asked for no more often than need be."""

import pytest

from agent.kubelet import MAX_ANSWER, Kubelet, KubeletError
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import ids, node_folder


async def test_an_answer_that_is_too_large_is_an_error_and_the_next_one_is_read():
    assert MAX_ANSWER <= 16 * 1024 * 1024
    with node_folder() as node:
        async with kubelet_in(node.root) as kubelet:
            asked = Kubelet(node.root)
            kubelet.held["pod", "x" * (MAX_ANSWER + 1)] = {"nvidia.com/gpu-0": ids(0, 0)}
            with pytest.raises(KubeletError, match="larger than max"):
                await asked.holders()
            kubelet.held = {("pod", "main"): {"nvidia.com/gpu-0": ids(0, 0)}}
            [holder] = await asked.holders()
            assert holder.ids == {"GPU-0::0"}
