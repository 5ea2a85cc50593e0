"""What the kubelet answers is bounded, and asked for no more often than need be."""

import asyncio

import pytest

from agent.kubelet import MAX_ANSWER, Kubelet, KubeletError
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import ids, node_folder


def test_an_answer_that_is_too_large_is_an_error_and_the_next_one_is_read():
    async def ask():
        with node_folder() as node:
            async with kubelet_in(node.root) as kubelet:
                asked = Kubelet(node.root)
                kubelet.held["pod", "x" * (MAX_ANSWER + 1)] = {"nvidia.com/gpu-0": ids(0, 0)}
                with pytest.raises(KubeletError, match="larger than max"):
                    await asked.holders()
                kubelet.held = {("pod", "main"): {"nvidia.com/gpu-0": ids(0, 0)}}
                [holder] = await asked.holders()
                assert holder.ids == {"GPU-0::0"}

    assert MAX_ANSWER <= 16 * 1024 * 1024
    asyncio.run(ask())


def test_a_list_of_holders_is_used_again_until_it_is_too_old():
    async def ask():
        with node_folder() as node:
            async with kubelet_in(node.root) as kubelet:
                asked = Kubelet(node.root)
                assert await asked.recent_holders(60) == []
                kubelet.held = {("pod", "main"): {"nvidia.com/gpu-0": ids(0, 0)}}
                assert await asked.recent_holders(60) == []
                assert kubelet.listings == 1
                [holder] = await asked.recent_holders(0)
                assert holder.pod == "pod"
                assert await asked.recent_holders(60) == [holder]
                assert kubelet.listings == 2

    asyncio.run(ask())
