"""The annotation for several GPUs: the same part of each of so many different GPUs of one node."""

import pytest

from ledger.placement_request import Assumption
from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import container, decide, pod, policies
from tests.webhook.support.gpu_pods import GPUS, JOBS, job_of, limits, memory_limits, on_gpus, webhook_of

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
    said = {name.removeprefix("clearml-injector/"): text for name, text in decided.annotations.items()}
    assert {key: said[key] for key in ("slices", "gpu-index", "memory-mib", "gpus")} == {
        "slices": "8",
        "gpu-index": "0,1",
        "memory-mib": "40960",
        "gpus": "2",
    }


def test_an_init_container_that_asks_for_a_gpu_gets_the_same_slices_of_the_same_gpus():
    asks = container("warm", limits={"nvidia.com/gpu": "2"})
    decided = webhook_of(gpu_node("a", 4)).decide(on_gpus("2", initContainers=[asks]))
    assert limits(decided, "warm") == limits(decided)
    assert memory_limits(decided, "warm") == memory_limits(decided)


def test_all_gpus_are_of_one_node_even_where_others_have_more_room():
    facts = [gpu_node("a", 1), gpu_node("b", 1), gpu_node("c", 2)]
    decided = webhook_of(*facts, holders=[holder("other", "c", (0, 4), (1, 4))]).decide(on_gpus("2"))
    assert decided.outcome.injection.placement.node == "c"


def test_a_pod_waits_for_two_different_gpus_where_no_node_has_two_with_room():
    webhook = webhook_of(gpu_node("a", 2), holders=[holder("other", "a", (0, 5))])
    decided = webhook.decide(on_gpus("2"))
    assert decided.outcome.injection.placement.node is None
    assert limits(decided) == {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}
    assert [(waiting.indices, waiting.slices) for waiting in webhook.ledger.pending()] == [((0, 1), 8)]


def test_a_node_with_fewer_gpus_can_never_hold_the_pod():
    decided = webhook_of(gpu_node("a", 2)).decide(on_gpus("3"))
    assert decided.code == "no-matching-node"
    assert decided.message.endswith("on 1 node there are fewer than 3 GPUs: request fewer")


@pytest.mark.parametrize("gpus", ["0", "17", "02", "+2", " 2", "2 ", "2.0", "two", "-1", "", "²", "1" * 5000])
def test_other_texts_than_whole_numbers_up_to_sixteen_are_denied_and_shown_in_part(gpus):
    decided = decide(on_gpus(gpus))
    assert decided.code == "gpus-not-allowed"
    assert decided.message.startswith(f'{GPUS} "{gpus[:16]}')
    assert decided.message.endswith('use a whole number from "1" to "16"')
    assert len(decided.message) < 100


def test_one_is_what_a_pod_without_the_annotation_gets():
    one, none = decide(on_gpus("1")), decide(pod())
    assert limits(one) == limits(none)


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


def test_other_amounts_are_denied():
    decided = decide(on_gpus("2", containers=[container(limits={"nvidia.com/gpu": "3"})]))
    assert decided.message.endswith("remove it or use 1 or 2 or 4 or 8")


def test_a_second_review_keeps_both_gpus_and_reserves_nothing_more():
    webhook = webhook_of(gpu_node("a", 4))
    injected = webhook.decide(on_gpus("2")).stored
    again = webhook.decide(injected, uid="another")
    assert (again.code, again.patch) == ("unchanged", [])
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [4, 4, 0, 0]


@pytest.mark.parametrize("said", ["0", "0,0", "1,0", "0,1,2", ""])
def test_indices_that_are_no_two_different_gpus_are_not_believed(said):
    webhook = webhook_of(gpu_node("a", 4))
    injected = webhook.decide(on_gpus("2")).stored
    injected["metadata"]["annotations"]["clearml-injector/gpu-index"] = said
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"


def test_a_count_that_was_changed_after_the_first_review_is_not_believed():
    webhook = webhook_of(gpu_node("a", 4))
    injected = webhook.decide(on_gpus("2")).stored
    injected["metadata"]["annotations"][GPUS] = "3"
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"


def test_a_quota_counts_the_slices_of_all_gpus():
    eight = policies("quotas: {namespaces: {team: {slices: 8}}}")
    webhook = webhook_of(gpu_node("a", 4), policy_set=eight)
    assert webhook.decide(on_gpus("3")).code == "over-quota"
    assert webhook.decide(on_gpus("2")).allowed
    assert webhook.decide(on_gpus("1", "0.125"), uid="one-more").code == "over-quota"


def test_an_assumed_node_has_as_many_gpus_as_the_pod_asks_for_or_none_fits():
    assumed = policies("assume: {gpusPerNode: 2, gpuMemoryMiB: 81920}")
    decided = webhook_of(policy_set=assumed).decide(on_gpus("2"))
    assert limits(decided) == {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}
    assert webhook_of(policy_set=assumed).decide(on_gpus("3")).code == "no-matching-node"
    assert assumed.resolve("team", None, None).demands.assume == Assumption(2, 81920)


def test_a_job_gets_the_denial_that_its_pods_would_get():
    assert decide(job_of(on_gpus("99")), resource=JOBS).code == "gpus-not-allowed"
