"""Containers that share a pod's part, under a policy that lets them lie on different GPUs of one node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.ledger.cluster import gpu_node, holder
from tests.webhook.support import container, named, policies
from tests.webhook.support.gpu_pods import (
    limits,
    memory_limits,
    pooled_node,
    sharing,
    webhook_of,
)

ANY = "containers: any-gpu"
SHARED = "train=0.500,eval=0.250"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


def narrow(policy=ANY, *, mib=81920, taken=((0, 4), (1, 5))):
    """A node of two GPUs, of which neither has room for six slices."""
    fact = gpu_node("a", 2, mib)
    return webhook_of(fact, policy_set=policies(policy), holders=[holder("other", "a", *taken)])


def shared(text=SHARED, asked="0.750", containers=None, **fields):
    return sharing(text, asked, containers, **fields)


def used(webhook):
    return [gpu.used for gpu in webhook.ledger.node("a").gpus]


def node_of(decided):
    return decided.outcome.injection.placement.node


def test_where_one_gpu_holds_all_of_them_they_are_on_that_one():
    webhook = webhook_of(gpu_node("a", 2), policy_set=policies(ANY), holders=[holder("other", "a", (0, 3))])
    decided = webhook.decide(shared())
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-1": "4"},
        {"nvidia.com/gpu-1": "2"},
    )
    assert decided.annotations["clearml-injector/gpu-index"] == "1"


def test_where_none_does_each_gets_its_slices_and_its_limit_of_a_gpu_with_room():
    webhook = narrow()
    decided = webhook.decide(shared())
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "4"},
        {"nvidia.com/gpu-1": "2"},
    )
    assert memory_limits(decided, "train") == {LIMIT: "40960m"}
    assert memory_limits(decided, "eval") == {LIMIT: "20480m"}
    assert node_of(decided) == "a"
    assert used(webhook) == [8, 7]


def test_the_index_is_said_of_each_container_in_the_order_in_which_they_are_written():
    decided = narrow().decide(shared("eval=0.250,train=0.500"))
    said = {name.removeprefix("clearml-injector/"): text for name, text in decided.annotations.items()}
    assert {key: said[key] for key in ("slices", "gpu-container", "gpu-index", "memory-mib")} == {
        "slices": "6",
        "gpu-container": "eval,train",
        "gpu-index": "1,0",
        "memory-mib": "20480,40960",
    }


def test_a_node_that_holds_all_on_one_gpu_goes_before_one_that_does_not():
    facts = [gpu_node("a", 2), gpu_node("b", 1)]
    holders = [holder("other", "a", (0, 4), (1, 5))]
    decided = webhook_of(*facts, policy_set=policies(ANY), holders=holders).decide(shared())
    assert node_of(decided) == "b"


def test_a_gpu_that_is_over_committed_takes_nothing_away_from_others():
    over = holder("other", "a", (0, 4), (1, 5), (2, 24))
    webhook = webhook_of(gpu_node("a", 3), policy_set=policies(ANY), holders=[over])
    decided = webhook.decide(shared())
    assert decided.annotations["clearml-injector/gpu-index"] == "0,1"
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "4"},
        {"nvidia.com/gpu-1": "2"},
    )


def test_under_the_default_they_wait_for_one_gpu():
    webhook = narrow("containers: same-gpu")
    decided = webhook.decide(shared())
    assert node_of(decided) is None
    assert limits(decided, "train").keys() == limits(decided, "eval").keys()
    assert [gpu.used for gpu in webhook.ledger.node("a").gpus] == [4, 5]


def test_where_there_is_no_room_at_all_they_wait_for_one_gpu():
    decided = narrow(taken=((0, 6), (1, 7))).decide(shared())
    assert node_of(decided) is None
    assert decided.annotations["clearml-injector/gpu-index"] in {"0", "1"}


def test_gpus_of_two_nodes_are_never_joined():
    facts = [gpu_node("a", 1), gpu_node("b", 1)]
    holders = [holder("x", "a", (0, 4)), holder("y", "b", (0, 4))]
    decided = webhook_of(*facts, policy_set=policies(ANY), holders=holders).decide(shared())
    assert node_of(decided) is None


def test_three_containers_may_lie_on_two_gpus():
    made = [container(name) for name in ("a", "b", "c")]
    webhook = narrow(taken=((0, 4), (1, 4)))
    decided = webhook.decide(shared("a=0.250,b=0.500,c=0.250", "0.875", made))
    assert decided.code == "containers-not-allowed"
    decided = webhook.decide(shared("a=0.125,b=0.500,c=0.250", "0.875", made))
    assert [limits(decided, name) for name in "abc"] == [
        {"nvidia.com/gpu-1": "1"},
        {"nvidia.com/gpu-0": "4"},
        {"nvidia.com/gpu-1": "2"},
    ]
    assert decided.annotations["clearml-injector/gpu-index"] == "1,0,1"
    assert used(webhook) == [8, 7]


def test_an_init_container_that_asks_for_a_gpu_gets_what_the_first_container_gets():
    asks = container("warm", limits={"nvidia.com/gpu": "1"})
    decided = narrow().decide(shared(initContainers=[asks]))
    assert limits(decided, "warm") == limits(decided, "train")
    assert memory_limits(decided, "warm") == memory_limits(decided, "train")


def test_a_second_review_leaves_the_pod_alone():
    webhook = narrow()
    injected = webhook.decide(shared()).stored
    again = webhook.decide(injected, uid="another")
    assert (again.code, again.patch) == ("unchanged", [])
    assert used(webhook) == [8, 7]


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


def test_each_gets_the_compute_of_its_part():
    decided = narrow(f"{ANY}\ncompute: same-as-memory").decide(shared())
    percent = [dict(decided.env(name))["CUDA_DEVICE_SM_LIMIT"] for name in ("train", "eval")]
    assert percent == ["50", "25"]


def test_in_a_pool_the_kubelet_chooses_as_ever():
    pooled = policies(f"{ANY}\nresources: {{mode: pooled}}")
    full = holder("other", "a", pooled=11)
    decided = webhook_of(pooled_node("a"), policy_set=pooled, holders=[full]).decide(shared())
    assert limits(decided, "train") == {"nvidia.com/gpu": "4"}
    assert "clearml-injector/gpu-index" not in decided.annotations


def test_without_limits_of_ours_they_part_likewise():
    decided = narrow(f"{ANY}\nlimits: {{from: agent}}").decide(shared())
    assert decided.annotations["clearml-injector/gpu-index"] == "0,1"
    assert "clearml-injector/memory-mib" not in decided.annotations


def test_memory_is_parted_too_and_the_sum_may_be_more_than_any_card_has():
    webhook = webhook_of(gpu_node("a", 2, 24576), policy_set=policies(ANY))
    decided = webhook.decide(shared("train=20Gi,eval=10Gi", "30Gi"))
    assert (limits(decided, "train"), limits(decided, "eval")) == (
        {"nvidia.com/gpu-0": "7"},
        {"nvidia.com/gpu-1": "4"},
    )
    assert memory_limits(decided, "train") == {LIMIT: "20480m"}
    assert decided.annotations["clearml-injector/memory-mib"] == "20480,10240"
    again = webhook.decide(decided.stored, uid="another")
    assert (again.code, again.patch) == ("unchanged", [])
    waits = webhook.decide(shared("train=20Gi,eval=10Gi", "30Gi"), uid="more")
    assert (node_of(waits), waits.annotations["clearml-injector/gpu-index"]) == (None, "0,1")
    assert [(each.indices, each.on_each) for each in webhook.ledger.pending()] == [((0, 1), (7, 4))]


def test_a_part_that_no_card_holds_is_denied():
    webhook = webhook_of(gpu_node("a", 2, 24576), policy_set=policies(ANY))
    assert webhook.decide(shared("train=25Gi,eval=1Gi", "26Gi")).code == "no-matching-node"
    one = webhook_of(gpu_node("a", 1, 24576), policy_set=policies(ANY))
    assert one.decide(shared("train=20Gi,eval=10Gi", "30Gi")).code == "no-matching-node"


def test_a_quota_counts_the_slices_and_the_memory_of_all_gpus():
    slices = "quotas: {namespaces: {team: {slices: 6}}}"
    webhook = narrow(f"{ANY}\n{slices}")
    assert webhook.decide(shared()).allowed
    assert webhook.decide(shared(), uid="more").code == "over-quota"
    memory = "quotas: {namespaces: {team: {memoryMiB: 61440}}}"
    assert narrow(f"{ANY}\n{memory}").decide(shared()).allowed
    less = "quotas: {namespaces: {team: {memoryMiB: 61439}}}"
    assert narrow(f"{ANY}\n{less}").decide(shared()).code == "over-quota"


@given(
    st.lists(st.integers(1, 7), min_size=2, max_size=7).filter(lambda sizes: sum(sizes) <= 7),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
@settings(max_examples=examples(by_turns("webhook", usual=100, full=300)), deadline=None)
def test_no_gpu_is_given_more_than_it_has_left_and_only_what_fits_on_none_is_parted(sizes, free):
    names = [f"c{number}" for number in range(len(sizes))]
    text = ",".join(f"{name}={size * 0.125}" for name, size in zip(names, sizes, strict=True))
    taken = [(index, 8 - left) for index, left in enumerate(free) if left < 8]
    webhook = webhook_of(
        gpu_node("a", len(free)), policy_set=policies(ANY), holders=[holder("other", "a", *taken)]
    )
    decided = webhook.decide(shared(text, f"{sum(sizes) * 0.125:.3f}", [container(name) for name in names]))
    given_to = [limits(decided, name) for name in names]
    assert [list(each.values()) for each in given_to] == [[str(size)] for size in sizes]
    chosen = [next(iter(each)) for each in given_to]
    if max(free) >= sum(sizes):
        assert node_of(decided) == "a"
        assert len(set(chosen)) == 1
    elif node_of(decided) is None:
        assert len(set(chosen)) == 1
    else:
        assert len(set(chosen)) > 1
    if node_of(decided) is not None:
        assert all(gpu.used <= 8 for gpu in webhook.ledger.node("a").gpus)
