"""Mode mig: what a pod is given, what it may itself ask for, and what a second review leaves as it is."""

import msgspec
import pytest

from modes.facts import NodeFact
from modes.mig_profiles import A100_80GB, MigProfile, card_of_profiles
from modes.units import profile_of_resource
from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, pod, policies
from tests.webhook.support.bounded_work import MAX_LINES, Lines
from tests.webhook.support.gpu_pods import asking_memory, expressions, webhook_of

MIG = policies("resources: {mode: mig}")
A100_80 = "NVIDIA-A100-SXM4-80GB"
ON_A100 = {("nvidia.com/gpu.product", "In"): [A100_80]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OTHER_UID = "6f7a1f0e-0000-4000-8000-000000000002"
ONE, TWO = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"


def node(name, product, *instances, pooled=0):
    labels = {"nvidia.com/gpu.product": product}
    found = tuple(sorted((profile_of_resource(resource).number, count) for resource, count in instances))
    return NodeFact(name=name, labels=labels, instances=found, pooled=pooled, pooled_gpus=pooled)


def webhook(*nodes, policy_set=MIG):
    nodes = nodes or (node("mig-1", A100_80, (ONE, 3), (TWO, 2)),)
    return webhook_of(*nodes, policy_set=policy_set)


def decide(found, *nodes):
    return webhook(*nodes).decide(found)


@pytest.mark.parametrize(
    ("found", "resource", "slices"),
    [
        (pod(fraction="0.125"), ONE, "1"),
        (pod(fraction="0.250"), TWO, "2"),
        (asking_memory("9728Mi"), ONE, "1"),
        (asking_memory("9729Mi"), TWO, "2"),
    ],
)
def test_a_share_becomes_one_instance_of_the_smallest_profile_bound_to_its_models(found, resource, slices):
    decided = decide(found)
    assert decided.container()["resources"] == {"limits": {resource: "1"}, "requests": {resource: "1"}}
    assert expressions(decided) == ON_A100
    assert decided.annotations["clearml-injector/slices"] == slices


@pytest.mark.parametrize("product", ["NVIDIA-B300", A100_80])
def test_an_instance_of_a_card_as_an_agent_reports_it_is_kept_in_the_next_review(product):
    """It is more than our table has: no such model, or less memory."""
    profiles = [MigProfile("1g.10gb", 1, 1, 10240, (0, 1, 2, 3, 4, 5, 6), 7), *A100_80GB.profiles[2:]]
    of_agent = node("mig-1", product, (ONE, 3))
    of_agent = msgspec.structs.replace(of_agent, reported_mig=card_of_profiles("card", profiles))
    reviewer = webhook(of_agent)
    stored = reviewer.decide(asking_memory("10000Mi")).stored
    assert reviewer.decide(stored, uid=OTHER_UID).code == "unchanged"


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
    assert expressions(again) == ON_A100


def test_an_instance_is_believed_only_if_every_term_of_the_affinity_has_its_models():
    reviewer = webhook()
    stored = reviewer.decide(pod(fraction="0.125")).stored
    terms = stored["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    terms.append({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
    again = reviewer.decide(stored, uid=OTHER_UID)
    assert again.code == "injected"
    terms = again.stored["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert all(A100_80 in str(term) for term in terms)


def test_more_than_one_instance_is_not_believed():
    reviewer = webhook()
    stored = reviewer.decide(pod(fraction="0.125")).stored
    stored["spec"]["containers"][0]["resources"] = {"limits": {ONE: "2"}, "requests": {ONE: "2"}}
    again = reviewer.decide(stored, uid=OTHER_UID)
    assert (again.code, again.allowed) == ("gpu-amount", False)


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
        # An instance is of one card and for one container.
        ({"annotation": "clearml-injector/gpus", "value": "2"}, "gpus-not-allowed"),
        ({"annotation": "clearml-injector/containers", "value": "train=0.125"}, "containers-not-allowed"),
    ],
)
def test_what_cannot_be_meant_with_the_label_is_denied_in_one_line(limits, code):
    found = pod(fraction="0.125", containers=[container(limits=limits)])
    if "annotation" in limits:
        found = pod(fraction="0.125", metadata={"annotations": {limits["annotation"]: limits["value"]}})
    decided = decide(found)
    assert decided.code == code
    assert len(decided.message) <= 200
    assert "\n" not in decided.message


BOTH = policies("resources: {prefer: [mig, per-gpu]}")
SLICED = gpu_node("s-1", 1, 46068)


def both(*instances):
    return webhook(node("mig-1", A100_80, *instances), SLICED, policy_set=BOTH)


@pytest.mark.parametrize(
    ("instances", "resource"),
    [([(ONE, 1)], ONE), ([(ONE, 0), (TWO, 0)], "nvidia.com/gpu-0"), ([], "nvidia.com/gpu-0")],
)
@pytest.mark.parametrize("found", [pod(fraction="0.125"), asking_memory("8Gi")], ids=["fraction", "memory"])
def test_of_both_families_the_pod_is_written_for_the_one_that_has_room(instances, resource, found):
    reviewer = both(*instances)
    decided = reviewer.decide(found)
    limits = decided.container()["resources"]["limits"]
    assert list(limits) == [resource]
    is_sliced = resource != ONE
    assert ("initContainers" in decided.spec) == is_sliced
    assert ("clearml-injector/memory-mib" in decided.annotations) == is_sliced
    assert (expressions(decided) == ON_A100) != is_sliced


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


def test_an_instance_is_not_kept_for_a_pod_that_says_it_shares_a_gpu_between_containers():
    """An author may add the annotation after the injection, before another webhook sends the pod again."""
    labelled = node("single", f"{A100_80}-MIG-1g.10gb", pooled=2)
    reviewer = webhook(labelled, policy_set=policies("resources: {prefer: [per-gpu, mig]}"))
    stored = reviewer.decide(pod(fraction="0.125")).stored
    assert "nvidia.com/gpu" in stored["spec"]["containers"][0]["resources"]["limits"]
    stored["metadata"]["annotations"]["clearml-injector/containers"] = "train=0.125"
    decided = reviewer.decide(stored, uid=OTHER_UID)
    assert (decided.allowed, decided.code) == (False, "no-matching-node")
