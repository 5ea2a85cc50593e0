"""Containers that share a pod's part, under a policy that lets them lie on different GPUs of one node."""

import pytest

from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import container, named, policies
from tests.webhook.support.gpu_pods import limits, memory_limits, sharing, webhook_of

ANY = "containers: any-gpu"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


def narrow(policy=ANY):
    """A node of two GPUs, of which neither has room for six slices."""
    taken = holder("other", "a", (0, 4), (1, 5))
    return webhook_of(gpu_node("a"), policy_set=policies(policy), holders=[taken])


def shared(**fields):
    return sharing("train=0.500,eval=0.250", "0.750", **fields)


def test_where_none_does_each_gets_its_slices_and_its_limit_of_a_gpu_with_room():
    webhook = narrow()
    decided = webhook.decide(shared())
    for name, index, slices, mib in (("train", 0, "4", 40960), ("eval", 1, "2", 20480)):
        assert limits(decided, name) == {f"nvidia.com/gpu-{index}": slices}
        assert memory_limits(decided, name) == {LIMIT: f"{mib}m"}
    assert decided.outcome.injection.placement.node == "a"
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [8, 7]


def test_under_the_default_they_wait_for_one_gpu():
    webhook = narrow("containers: same-gpu")
    decided = webhook.decide(shared())
    assert decided.outcome.injection.placement.node is None
    assert limits(decided, "train").keys() == limits(decided, "eval").keys()
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [4, 5]


def test_an_init_container_that_asks_for_a_gpu_gets_what_the_first_container_gets():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = narrow().decide(shared(initContainers=[asks]))
    assert limits(decided, "warm") == limits(decided, "train")
    assert memory_limits(decided, "warm") == memory_limits(decided, "train")


@pytest.mark.parametrize("said", ["0", "1", "0,0", "1,0", "0,1,1", "0,1,", ",", "0,x", "0," * 5000])
def test_indices_that_are_not_those_of_the_containers_are_not_believed(said):
    webhook = narrow()
    injected = webhook.decide(shared()).stored
    injected["metadata"]["annotations"]["clearml-injector/gpu-index"] = said
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"


def test_a_place_on_different_gpus_is_not_kept_under_a_policy_of_one_gpu():
    injected = narrow().decide(shared()).stored
    assert narrow("containers: same-gpu").decide(injected, uid="another").code == "gpu-index-set"


def test_slices_that_were_exchanged_after_the_first_review_are_not_believed():
    webhook = narrow()
    injected = webhook.decide(shared()).stored
    train, evaluate = (named(injected["spec"]["containers"], name) for name in ("train", "eval"))
    train["resources"], evaluate["resources"] = evaluate["resources"], train["resources"]
    assert webhook.decide(injected, uid="another").code == "gpu-index-set"
