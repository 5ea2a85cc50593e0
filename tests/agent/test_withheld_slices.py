"""Slices that containers hold beyond what the kubelet counts, after slicesPerGpu grew, go to nobody else."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gpu import Gpu
from agent.settings import LimiterPart
from agent.shares import slice_ids, withheld_ids
from tests.agent.support.node import HAMI, PER_GPU, card, ids, node_with, running

CARD = Gpu(0, "GPU-0", "NVIDIA A100", 40960)
SIZES = st.sampled_from([2, 4, 8, 16])
NAME = "nvidia.com/gpu-0"


@given(old=SIZES, new=SIZES, data=st.data())
def test_what_is_free_is_no_more_than_what_is_left_of_the_gpu(old, new, data):
    numbers = data.draw(st.lists(st.integers(0, old - 1), unique=True, min_size=1))
    cut = data.draw(st.integers(0, len(numbers)))
    given_ids = [frozenset(ids(0, *part)) for part in (numbers[:cut], numbers[cut:]) if part]
    held = frozenset().union(*given_ids)
    withheld = withheld_ids([CARD], dict.fromkeys(given_ids, old), held, new)
    assert withheld <= set(slice_ids(CARD, new)) - held
    counted = new - len(withheld) - len(held)
    assert Fraction(max(0, counted), new) <= 1 - Fraction(len(numbers), old)
    if old >= new:
        assert not withheld


def test_one_set_of_ids_that_containers_have_one_after_the_other_is_held_once():
    init, main = frozenset(ids(0, 0, 1, 2, 3)), frozenset(ids(0, 0, 1))
    assert len(withheld_ids([CARD], {init: 8, main: 8}, init, 16)) == 4


async def test_without_pod_resources_slices_are_withheld_by_the_kubelets_file(
    monkeypatch,
):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    sixteenths = msgspec.structs.replace(PER_GPU, slices_per_gpu=16)
    async with node_with(card(0)) as (node, kubelet):
        kubelet.write_checkpoint(("uid", "main", NAME, ids(0, 0, 1, 2, 3), "8"))
        kubelet.lists = False
        async with running(node, sixteenths):
            await kubelet.until_offered(NAME, 12)
            kubelet.write_checkpoint()
            await kubelet.until_offered(NAME, 16)


WAYS = {
    "CDI": ({}, HAMI),
    "limits by admission": ({}, LimiterPart("none")),
    "volume mounts": ({"strategy": "volume-mounts"}, HAMI),
    "environment": ({"strategy": "envvar"}, HAMI),
}


@pytest.mark.parametrize("way", WAYS)
async def test_half_a_gpu_of_before_is_known_by_the_answer_that_gave_it(way, monkeypatch):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    options, limiter = WAYS[way]
    eighths = msgspec.structs.replace(PER_GPU, limiter=limiter)
    sixteenths = msgspec.structs.replace(eighths, slices_per_gpu=16)
    half = ids(0, 0, 1, 2, 3)
    async with node_with(card(0), **options) as (node, kubelet):
        async with running(node, eighths):
            await kubelet.until_offered(NAME)
            answer = await kubelet.allocate(NAME, *half)
        kubelet.write_checkpoint(("uid", "main", NAME, half, answer))
        kubelet.held["old", "main"] = {NAME: half}
        kubelet.first_devices.clear()
        async with running(node, sixteenths):
            await kubelet.until(lambda: NAME in kubelet.first_devices)
            assert list(kubelet.first_devices[NAME].values()).count("Healthy") == 12
            assert {kubelet.first_devices[NAME][each] for each in half} == {"Healthy"}
            # The kubelet's file says it until the next pod; its books do not.
            kubelet.held.clear()
            await kubelet.until_offered(NAME, 16)


async def test_what_was_given_without_a_limit_withholds_nothing_once_the_agent_limits():
    given = ids(0, 0, 1)
    async with node_with(card(0)) as (node, kubelet):
        kubelet.write_checkpoint(("uid", "main", NAME, given, None))
        kubelet.held["old", "main"] = {NAME: given}
        async with running(node):
            await kubelet.until(lambda: NAME in kubelet.first_devices)
            assert list(kubelet.first_devices[NAME].values()) == ["Healthy"] * 8
