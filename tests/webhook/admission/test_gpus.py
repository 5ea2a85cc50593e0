"""The annotation for several GPUs: the same part of each of so many different GPUs of one node."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, decide, policies
from tests.webhook.support.gpu_pods import GPUS, limits, memory_limits, on_gpus, webhook_of

POOLED = "resources: {mode: pooled}\nassume: {gpusPerNode: 4, gpuMemoryMiB: 81920}"
IMAGES = "limiter: clearml-image"


def test_half_of_each_of_two_gpus_are_four_slices_of_both_and_a_limit_for_each():
    decided = webhook_of(gpu_node("a", 4)).decide(on_gpus("2"))
    assert limits(decided) == {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}
    assert decided.container()["resources"]["requests"] == limits(decided)
    assert memory_limits(decided) == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "40960m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "40960m",
    }
    names = ("slices", "gpu-index", "memory-mib", "gpus")
    assert [decided.annotations[f"clearml-injector/{name}"] for name in names] == ["8", "0,1", "40960", "2"]


@pytest.mark.parametrize("gpus", ["0", "17", "02", "+2", " 2", "2 ", "2.0", "two", "-1", "", "²", "1" * 5000])
def test_other_texts_than_whole_numbers_up_to_sixteen_are_denied_and_shown_in_part(gpus):
    decided = decide(on_gpus(gpus))
    assert decided.code == "gpus-not-allowed"
    assert decided.message.startswith(f'{GPUS} "{gpus[:16]}')
    assert decided.message.endswith('use a whole number from "1" to "16"')
    assert len(decided.message) < 100


@pytest.mark.parametrize(
    ("text", "gpus", "advice"),
    [
        ("maxGpus: 2", "3", 'use a whole number from "1" to "2"'),
        ("maxGpus: 1", "2", 'use a whole number from "1" to "1"'),
        (POOLED, "2", "the kubelet chooses the GPUs, perhaps one for all slices: request a share of one"),
        (IMAGES, "2", "limiter clearml-image of policy default limits one GPU: request a share of one"),
        ('fractions: {"0.500": 4, "1.000": 8}', "2", "set their number only in the label"),
    ],
)
def test_what_the_policy_cannot_keep_is_denied(text, gpus, advice):
    fraction = "1.000" if "1.000" in text else "0.500"
    decided = decide(on_gpus(gpus, fraction), policies(text))
    assert decided.code == "gpus-not-allowed"
    assert decided.message.endswith(advice)


@pytest.mark.parametrize("amount", ["0", "1", "2", "4", "8"])
def test_amounts_of_the_users_own_may_be_one_the_gpus_or_the_slices(amount):
    asks = on_gpus(
        "2", containers=[container(limits={"nvidia.com/gpu": amount, "clear.ml/fraction-1": "500m"})]
    )
    decided = webhook_of(gpu_node("a", 4)).decide(asks)
    assert limits(decided) == {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}


@pytest.mark.parametrize("said", ["0", "0,0", "1,0", "0,1,2", ""])
def test_indices_that_are_no_two_different_gpus_are_not_believed(said):
    webhook = webhook_of(gpu_node("a", 4))
    injected = webhook.decide(on_gpus("2")).stored
    injected["metadata"]["annotations"]["clearml-injector/gpu-index"] = said
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"
