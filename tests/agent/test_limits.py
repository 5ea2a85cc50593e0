"""A limiter's variables and mounts, and which shares one container cannot hold together."""

import msgspec
import pytest

from agent.gpu import Gpu
from agent.limits import mounts, refuse_conflict, variables
from agent.settings import LimiterPart
from agent.shares import RefusedError, Share, memory_mib
from tests.agent.support.node import HAMI, PER_GPU, POOLED


def share(index, slices, memory=40960):
    card = Gpu(index, f"GPU-{index}", "NVIDIA A100", memory)
    return Share(card, slices, memory_mib(card, slices, 8, 0))


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        (
            [share(0, 2), share(3, 4)],
            "CUDA_DEVICE_MEMORY_LIMIT_0 would have to be 10240m for GPU 0 and 20480m for GPU 3",
        ),
        ([share(0, 8), share(1, 4)], "GPU 0 is whole, and the limit of the share of GPU 1 would hold it too"),
    ],
)
def test_the_refusal_names_both_gpus_and_what_to_do(shares, why):
    with pytest.raises(RefusedError, match=f"{why}: ask for equal shares of equal GPUs, or use a container"):
        refuse_conflict(shares, PER_GPU)


def test_whole_gpus_and_shares_of_equal_mib_are_not_refused():
    refuse_conflict([share(0, 8), share(1, 8)], PER_GPU)
    refuse_conflict([share(0, 2), share(3, 4, 20480), share(7, 2)], PER_GPU)


def test_each_gpu_has_its_limit_at_every_place_that_it_can_have_in_a_container():
    limits = {name: value for name, value in variables(share(2, 2), PER_GPU).items() if "LIMIT_" in name}
    assert limits == {f"CUDA_DEVICE_MEMORY_LIMIT_{place}": "10240m" for place in range(3)}


def test_variables_that_speak_of_the_pod_are_left_out():
    limiter = LimiterPart("own", env=(("NAME", "{namespace}"), ("SLICES", "{slices}/{slices_per_gpu}")))
    policy = msgspec.structs.replace(POOLED, limiter=limiter)
    assert variables(share(0, 4), policy) == {"SLICES": "4/8"}


def test_a_whole_gpu_gets_nothing_of_the_limiter_and_a_share_a_folder_in_memory_of_its_size():
    assert variables(share(0, 8), PER_GPU) == {}
    assert mounts(share(0, 8), HAMI, "/state") == []
    assert mounts(share(0, 4), HAMI, "/state")[-1]["options"][-1] == "size=8388608"
