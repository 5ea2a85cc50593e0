"""Mode mig: what a pod is given, what it may itself ask for, and what a second review leaves as it is."""

import pytest

from ledger.ledger import Ledger
from modes.facts import NodeFact
from modes.units import profile_of_resource
from tests.webhook.support import Webhook, container, pod, policies
from tests.webhook.support import decide as decide_without_mig
from tests.webhook.support.bounded_work import MAX_LINES, Lines

MIG = policies("resources: {mode: mig}")
A100_40, A100_80, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OTHER_UID = "6f7a1f0e-0000-4000-8000-000000000002"
UNLIKE = "6f7a1f0e-0000-4000-8000-000000000003"
ONE, TWO = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"


def node(name, product, *instances, pooled=0):
    labels = {"nvidia.com/gpu.product": product}
    found = tuple(sorted((profile_of_resource(resource).number, count) for resource, count in instances))
    return NodeFact(name=name, labels=labels, instances=found, pooled=pooled, pooled_gpus=pooled)


def webhook(*nodes, policy_set=MIG):
    ledger = Ledger()
    ledger.replace(nodes or [node("mig-1", A100_80, (ONE, 3), (TWO, 2))], [])
    return Webhook(policy_set, ledger)


def decide(found, *nodes):
    return webhook(*nodes).decide(found)


def products(stored):
    (term,) = stored["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [each["values"] for each in term["matchExpressions"] if each["key"] == "nvidia.com/gpu.product"]


def memory_pod(text):
    return pod(fraction=None, labels={"clearml-injector/gpu-memory": text})


@pytest.mark.parametrize(
    ("found", "resource", "slices"),
    [
        (pod(fraction="0.125"), ONE, "1"),
        (pod(fraction="0.250"), TWO, "2"),
        (memory_pod("9728Mi"), ONE, "1"),
        (memory_pod("9729Mi"), TWO, "2"),
    ],
)
def test_a_share_becomes_one_instance_of_the_smallest_profile_bound_to_its_models(found, resource, slices):
    decided = decide(found)
    assert decided.container()["resources"] == {"limits": {resource: "1"}, "requests": {resource: "1"}}
    assert products(decided.stored) == [[A100_80]]
    assert decided.annotations["clearml-injector/slices"] == slices


def test_nothing_of_a_limiter_and_no_index_is_written():
    decided = decide(pod(fraction="0.125", containers=[container(limits={"nvidia.com/gpu": "1"})]))
    assert not {"volumes", "initContainers"} & set(decided.spec)
    assert not {"env", "volumeMounts"} & set(decided.container())
    named = {name for name in decided.annotations if name.startswith("clearml-injector/")}
    assert named == {
        f"clearml-injector/{name}" for name in ("injected", "slices", "gpu-container", "reservation")
    }
    assert "nvidia.com/gpu" not in decided.container()["resources"]["limits"]


def test_of_strategy_single_the_pod_asks_for_a_whole_gpu_on_nodes_of_that_profile():
    product = f"{H100}-MIG-3g.40gb"
    decided = decide(pod(), node("s", product, pooled=2))
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert products(decided.stored) == [[product]]
    assert decided.annotations["clearml-injector/slices"] == "4"


def test_init_containers_that_ask_for_a_gpu_get_the_same_instance():
    init = container("warm", limits={"nvidia.com/gpu": "1"})
    found = pod(
        fraction="0.125", containers=[container(limits={"nvidia.com/gpu": "1"})], initContainers=[init]
    )
    assert decide(found).container("warm")["resources"]["limits"] == {ONE: "1"}


def test_the_users_own_affinity_is_kept_with_the_models():
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    found = pod(fraction="0.125", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    labels = {"nvidia.com/gpu.product": A100_80, "zone": "a"}
    labelled = NodeFact(name="z", labels=labels, instances=((profile_of_resource(ONE).number, 1),))
    (written,) = decide(found, labelled).spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [each["key"] for each in written["matchExpressions"]] == ["zone", "nvidia.com/gpu.product"]


@pytest.mark.parametrize("found", [pod(fraction="0.125"), memory_pod("4Gi")], ids=["fraction", "memory"])
@pytest.mark.parametrize("single", [False, True])
def test_a_second_review_leaves_the_pod_as_it_is_and_reserves_nothing(found, single):
    nodes = [node("s", f"{A100_80}-MIG-1g.10gb", pooled=2)] if single else []
    reviewer = webhook(*nodes)
    stored = reviewer.decide(found).stored
    before = reviewer.ledger.view()
    assert reviewer.decide(stored, uid=OTHER_UID).patch == []
    assert reviewer.ledger.view() == before


def test_a_second_review_under_a_quota_is_counted_once():
    under = policies("resources: {mode: mig}\nquotas: {namespaces: {team: {slices: 2}}}")
    reviewer = webhook(policy_set=under)
    stored = reviewer.decide(pod(fraction="0.250")).stored
    assert reviewer.decide(stored, uid=OTHER_UID).code in {"unchanged", "injected"}
    assert reviewer.decide(pod(fraction="0.125"), uid=UNLIKE).code == "over-quota"


@pytest.mark.parametrize(
    "found",
    [
        pod(fraction="0.125", metadata={"annotations": {"clearml-injector/gpu-model": "A100,H100"}}),
        pod(fraction="0.125", containers=[container(limits={ONE: "0"})]),
        pod(fraction="0.125", containers=[container(limits={ONE: "1", TWO: "0"})]),
    ],
    ids=["models of which the instance has only some", "no instance", "one instance and none of another"],
)
def test_a_second_review_knows_the_instance_whatever_else_the_pod_says(found):
    reviewer = webhook(node("a", A100_40, ("nvidia.com/mig-1g.5gb", 1)), node("b", H100, (ONE, 1)))
    stored = reviewer.decide(found).stored
    before = reviewer.ledger.view()
    assert reviewer.decide(stored, uid=OTHER_UID).patch == []
    assert reviewer.ledger.view() == before


@pytest.mark.parametrize(
    "own",
    [
        [[A100_80, H100], [A100_80]],
        [[A100_80, H100], [H100, A100_80]],
        [[A100_80], [A100_80, H100], [A100_80, "Tesla-T4"]],
    ],
)
def test_a_second_review_knows_the_instance_next_to_the_users_own_demands_of_models(own):
    term = [{"key": "nvidia.com/gpu.product", "operator": "In", "values": models} for models in own]
    terms = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term}]}}
    reviewer = webhook(node("a", A100_80, (ONE, 2)), node("b", H100, (ONE, 2)))
    stored = reviewer.decide(pod(fraction="0.125", affinity={"nodeAffinity": terms})).stored
    assert reviewer.decide(stored, uid=OTHER_UID).patch == []


def test_an_instance_by_name_is_none_of_nodes_of_strategy_single():
    reviewer = webhook()
    stored = reviewer.decide(pod(fraction="0.125")).stored
    products(stored)[0][:] = [f"{A100_80}-MIG-1g.10gb"]
    assert reviewer.decide(stored, uid=OTHER_UID).code == "no-matching-node"


def test_with_same_model_a_second_review_knows_the_instance_in_every_term():
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": OTHER_UID, "controller": True}
    terms = [
        {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [each]}]}
        for each in (A100_80, H100)
    ]
    found = pod(
        fraction="0.125",
        metadata={"ownerReferences": [owner]},
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
    )
    nodes = node("a", A100_80, (ONE, 1)), node("b", H100, (ONE, 1))
    reviewer = webhook(*nodes, policy_set=policies("resources: {mode: mig}\nsameModel: true"))
    stored = reviewer.decide(found).stored
    assert reviewer.decide(stored, uid=OTHER_UID).patch == []


def test_models_that_the_pod_does_not_take_are_not_among_those_of_its_instance():
    found = pod(fraction="0.125", metadata={"annotations": {"clearml-injector/gpu-model": "H100"}})
    decided = decide(found, node("a", A100_80, (ONE, 1)), node("b", H100, (ONE, 1)))
    assert products(decided.stored) == [[H100]]


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored["metadata"]["annotations"].update({"clearml-injector/slices": "2"}),
        lambda stored: stored["metadata"]["annotations"].update({"clearml-injector/memory-mib": "1"}),
        lambda stored: stored["spec"].pop("affinity"),
    ],
)
def test_an_instance_is_believed_only_if_all_the_pod_says_of_it_agrees(change):
    reviewer = webhook()
    stored = reviewer.decide(pod(fraction="0.125")).stored
    change(stored)
    again = reviewer.decide(stored, uid=OTHER_UID)
    assert again.code == "injected"
    assert again.annotations["clearml-injector/slices"] == "1"
    assert products(again.stored) == [[A100_80]]


def test_many_sets_of_models_in_a_forged_affinity_take_bounded_work():
    wanted = [[f"{A100_80}{number}"] + [A100_80] * 999 for number in range(10)]
    demands = [{"key": "nvidia.com/gpu.product", "operator": "In", "values": values} for values in wanted]
    terms = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": demands}]}}
    forged = {"clearml-injector/injected": "default@1", "clearml-injector/gpu-container": "train"}
    found = pod(
        fraction="0.125",
        containers=[container(limits={ONE: "1"})],
        metadata={"annotations": {**forged, "clearml-injector/slices": "8"}},
        affinity={"nodeAffinity": terms},
    )
    hook = webhook()
    with Lines() as lines:
        assert hook.decide(found).code == "too-many-demands"
    assert lines.count <= MAX_LINES


def test_an_instance_that_the_pod_names_in_addition_to_the_label_is_the_one_it_gets():
    found = pod(fraction="0.125", containers=[container(limits={TWO: "1"})])
    decided = decide(found)
    assert decided.container()["resources"]["limits"] == {TWO: "1"}
    assert decided.annotations["clearml-injector/slices"] == "2"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({ONE: "2"}, "gpu-amount"),
        ({ONE: "1", TWO: "1"}, "gpu-amount"),
        ({"nvidia.com/mig-7g.80gb": "1"}, "no-matching-node"),
        ({"nvidia.com/mig-nonsense": "1"}, "no-matching-node"),
        ({"nvidia.com/gpu-0": "1"}, "gpu-index-set"),
        ({"nvidia.com/gpumem": "1"}, "other-gpu-system"),
    ],
)
def test_what_cannot_be_meant_with_the_label_is_denied_in_one_line(limits, code):
    decided = decide(pod(fraction="0.125", containers=[container(limits=limits)]))
    assert decided.code == code
    assert len(decided.message) <= 200
    assert "\n" not in decided.message


@pytest.mark.parametrize("profile", ["nonsense", "1g.24gb.gfx", "7g.80gb.me.all", "x" * 59])
def test_a_profile_that_is_not_known_is_called_so_and_not_too_small(profile):
    decided = decide(pod(fraction="0.125", containers=[container(limits={f"nvidia.com/mig-{profile}": "1"})]))
    assert decided.message.endswith("is not a known MIG profile: use another, or leave the resource out")
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ({"clearml-injector/gpus": "2"}, "gpus-not-allowed"),
        ({"clearml-injector/containers": "train=0.125"}, "containers-not-allowed"),
    ],
)
def test_an_instance_is_of_one_card_and_for_one_container(annotations, code):
    found = pod(fraction="0.125", metadata={"annotations": annotations})
    assert decide(found).code == code


def test_a_share_that_no_instance_could_ever_hold_is_denied_at_once_in_one_line():
    decided = decide(pod(fraction="0.875"))
    assert decided.code == "no-matching-node"
    assert decided.message.endswith("the largest is 2g.20gb of 19968 MiB: request less")


def test_a_pod_without_our_label_is_not_touched_whatever_instances_it_asks_for():
    reviewer = webhook()
    decided = reviewer.decide(pod(fraction=None, containers=[container(limits={ONE: "5"})]))
    assert (decided.code, decided.patch) == ("not-labelled", [])


def test_other_modes_still_refuse_instances_in_addition_to_the_label():
    decided = decide_without_mig(pod(containers=[container(limits={ONE: "1"})]))
    assert decided.code == "other-gpu-system"


BOTH = policies("resources: {prefer: [mig, per-gpu]}")
SLICED = NodeFact(
    name="s-1",
    labels={"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"},
    gpus=((0, 8),),
    slices_per_gpu=8,
    gpu_mib=46068,
)


def both(*instances, policy_set=BOTH):
    return webhook(node("mig-1", A100_80, *instances), SLICED, policy_set=policy_set)


@pytest.mark.parametrize(
    ("instances", "resource"),
    [([(ONE, 1)], ONE), ([(ONE, 0), (TWO, 0)], "nvidia.com/gpu-0"), ([], "nvidia.com/gpu-0")],
)
@pytest.mark.parametrize("found", [pod(fraction="0.125"), memory_pod("8Gi")], ids=["fraction", "memory"])
def test_of_both_families_the_pod_is_written_for_the_one_that_has_room(instances, resource, found):
    reviewer = both(*instances)
    decided = reviewer.decide(found)
    limits = decided.container()["resources"]["limits"]
    assert list(limits) == [resource]
    is_sliced = resource != ONE
    assert ("initContainers" in decided.spec) == is_sliced
    assert ("clearml-injector/memory-mib" in decided.annotations) == is_sliced
    assert products(decided.stored) == ([] if is_sliced else [[A100_80]])


def test_a_pod_that_has_slices_gets_no_instance_in_addition():
    reviewer = both()
    stored = reviewer.decide(pod(fraction="0.125")).stored
    (task,) = stored["spec"]["containers"]
    for amounts in task["resources"].values():
        amounts[ONE] = "1"
    assert reviewer.decide(stored, uid=OTHER_UID).code == "gpu-index-set"
    for amounts in task["resources"].values():
        amounts[ONE] = "0"
    assert reviewer.decide(stored, uid=OTHER_UID).patch == []


def test_under_both_families_shared_containers_get_slices_and_a_named_instance_is_one():
    containers = [container("train"), container("eval")]
    annotations = {"clearml-injector/containers": "train=0.125,eval=0.125"}
    shared = pod(fraction="0.250", containers=containers, metadata={"annotations": annotations})
    assert list(both((TWO, 1)).decide(shared).container()["resources"]["limits"]) == ["nvidia.com/gpu-0"]
    named = pod(fraction="0.125", containers=[container(limits={TWO: "1"})])
    assert list(both((TWO, 1)).decide(named).container()["resources"]["limits"]) == [TWO]


def test_slices_that_the_pod_itself_asks_for_are_not_left_next_to_its_instance():
    pooled = policies("resources: {mode: pooled, name: example.com/slice, prefer: [mig, pooled]}")
    found = pod(fraction="0.125", containers=[container(limits={"example.com/slice": "1"})])
    decided = both((ONE, 1), policy_set=pooled).decide(found)
    assert decided.container()["resources"] == {"limits": {ONE: "1"}, "requests": {ONE: "1"}}


def test_a_named_instance_cannot_be_shared_between_containers():
    containers = [container("train", limits={TWO: "1"}), container("eval")]
    annotations = {"clearml-injector/containers": "train=0.125,eval=0.125"}
    shared = pod(fraction="0.250", containers=containers, metadata={"annotations": annotations})
    assert both((TWO, 1)).decide(shared).code == "containers-not-allowed"


def test_a_queue_may_turn_the_order_of_its_policy():
    queues = "kind: Queues\nqueues: {cheap: {namespaces: [team], prefer: [per-gpu, mig]}}\n"
    under = policies("resources: {prefer: [mig, per-gpu]}", queues=queues)
    found = pod(fraction="0.125", labels={"clearml-agent-queue-name": "cheap"})
    assert list(both((ONE, 1), policy_set=under).decide(found).container()["resources"]["limits"]) == [
        "nvidia.com/gpu-0"
    ]


def test_an_instance_is_not_kept_for_a_pod_that_says_it_shares_a_gpu_between_containers():
    """An author may add the annotation after the injection, before another webhook sends the pod again."""
    both = policies("resources: {prefer: [per-gpu, mig]}")
    labelled = node("single", f"{A100_80}-MIG-1g.10gb", pooled=2)
    reviewer = webhook(labelled, policy_set=both)
    stored = reviewer.decide(pod(fraction="0.125")).stored
    assert "nvidia.com/gpu" in stored["spec"]["containers"][0]["resources"]["limits"]
    stored["metadata"]["annotations"]["clearml-injector/containers"] = "train=0.125"
    decided = reviewer.decide(stored, uid=OTHER_UID)
    assert (decided.allowed, decided.code) == (False, "no-matching-node")
