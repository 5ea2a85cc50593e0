"""The annotations for the kind of GPU: what of a cluster remains, and what is denied."""

import copy

import pytest

from modes.gpu_kinds import matches
from tests.ledger.cluster import gpu_node
from tests.webhook.support import as_body, container, decide, pod, policies, review_of
from tests.webhook.support.bounded_work import check
from tests.webhook.support.gpu_pods import bound_to, expressions, webhook_of

MODEL = "clearml-injector/gpu-model"
A100_40 = "NVIDIA-A100-SXM4-40GB"
A100_80 = "NVIDIA-A100-SXM4-80GB"
H100 = "NVIDIA-H100-PCIe"
CLUSTER = {A100_40: 40960, A100_80: 81920, H100: 81559, "Tesla-T4": 15360}


def node(model, mib, **changes):
    made = gpu_node(model.lower(), mib=mib, **changes)
    made.labels["nvidia.com/gpu.product"] = model
    return made


def cluster(**keys):
    return webhook_of(*(node(model, mib) for model, mib in CLUSTER.items()), **keys)


def of_kind(fraction="0.500", labels=None, **annotations):
    said = {f"clearml-injector/{name.replace('_', '-')}": text for name, text in annotations.items()}
    found = pod(fraction=fraction, labels=labels)
    found["metadata"]["annotations"] = said
    return found


@pytest.mark.parametrize(
    ("pattern", "model", "is_taken"),
    [
        ("A100", A100_40, True),
        ("A100-80", A100_40, False),
        ("a100-80gb", A100_80, True),
        ("A10*", A100_40, True),
        ("H100*", H100, True),
        ("H100-A100", H100, False),
        ("L40", "NVIDIA-L40S", False),
        ("T4", "", False),
    ],
)
def test_a_pattern_matches_words_of_a_model_in_their_order(pattern, model, is_taken):
    assert matches(pattern, model) is is_taken


@pytest.mark.parametrize(
    ("text", "models"),
    [("A100", [A100_40, A100_80]), ("A100-80,H100*", [A100_80, H100]), (" T4 , H100 ", [H100, "Tesla-T4"])],
)
def test_a_pod_may_land_on_all_models_that_are_named_and_no_other(text, models):
    decided = cluster().decide(of_kind(gpu_model=text))
    assert expressions(decided)["nvidia.com/gpu.product", "In"] == models
    assert decided.outcome.injection.placement.node in [model.lower() for model in models]


def test_gpus_of_less_memory_than_the_least_are_passed_by():
    decided = cluster().decide(of_kind(min_gpu_memory="60Gi"))
    assert expressions(decided)["nvidia.com/gpu.memory", "Gt"] == ["61439"]
    assert set(bound_to(decided)) <= {81920, 81559}


def test_a_place_is_not_kept_for_another_model_or_more_memory():
    webhook = cluster()
    stored = webhook.decide(of_kind(gpu_model="A100", min_gpu_memory="1Gi")).stored
    for name, text in ((MODEL, "T4"), ("clearml-injector/min-gpu-memory", "1000Gi")):
        changed = copy.deepcopy(stored)
        changed["metadata"]["annotations"][name] = text
        assert webhook.decide(changed, uid="third").code != "unchanged"


@pytest.mark.parametrize("text", ["", ",", "A 100", "[a]", "A100-", "x" * 300, ",".join("abcdefghi")])
def test_a_text_that_names_no_models_is_denied_in_one_line(text):
    decided = decide(of_kind(gpu_model=text))
    assert (decided.code, decided.message.startswith(MODEL)) == ("gpu-kind", True)
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    "values_of_terms",
    [
        [["a" + 250_000 * "-a"]],
        [[f"{number}-{29 * '-b'}-a" for number in range(1000)] for _ in range(5)],
        [[f"{term}-{number}{28 * '-b'}-a" for number in range(100)] for term in range(50)],
    ],
    ids=["one long value", "the same values in each term", "many values"],
)
def test_models_of_the_pods_own_affinity_are_matched_in_bounded_work(values_of_terms):
    """In a pod that says that it was injected before, with a required term for each list of models."""
    terms = [
        {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": values}]}
        for values in values_of_terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = of_kind(injected="default@1", gpu_model="b-b*,c-c*,d-d*,e-e*,f-f*,g-g*,h-h*,a*")
    asks = container(limits={"nvidia.com/gpu-0": "4"})
    found["spec"] = {"containers": [asks], "affinity": {"nodeAffinity": required}}
    assert check(as_body(review_of(found))).reason == "gpu-index-set"


HOST = "kubernetes.io/hostname"
BY_AGENT = 'limits: {from: agent}\nfractions: {"0.500": 4}'


def mixed(*models, name="mixed", **keys):
    """A webhook of a node with several models, by its label all of the first, and of one with 40 GB."""
    cards = tuple((index, CLUSTER[model]) for index, model in enumerate(models))
    facts = {"cards": cards, "card_models": models, "agent": "serving"}
    odd = gpu_node(name, len(models), CLUSTER[models[0]], **facts)
    odd.labels["nvidia.com/gpu.product"] = models[0]
    return webhook_of(odd, node(A100_40, 40960, agent="serving"), **keys)


@pytest.mark.parametrize("asked", [{"gpu_model": "A100-80"}, {"min_gpu_memory": "60Gi"}])
def test_a_card_that_no_label_tells_is_had_by_the_name_of_its_host(asked):
    webhook = mixed(A100_40, A100_80, policy_set=policies(BY_AGENT))
    decided = webhook.decide(of_kind(**asked))
    assert decided.stored["metadata"]["annotations"]["clearml-injector/gpu-index"] == "1"
    assert expressions(decided) == {(HOST, "In"): ["mixed"]}


def test_a_host_whose_card_is_another_than_its_label_says_is_shut_out():
    webhook = mixed(A100_40, A100_80, policy_set=policies("limits: {from: agent}"))
    found = [webhook.decide(of_kind("0.875", gpu_model="A100-40"), uid=uid) for uid in "abc"]
    said = {
        each.outcome.injection.placement.indices: expressions(each).get((HOST, "NotIn")) for each in found
    }
    assert said == {(0,): None, (1,): ["mixed"]}


def test_names_of_hosts_are_read_back_as_they_were_written_and_no_longer_lists():
    webhook = mixed(A100_40, A100_80, policy_set=policies(BY_AGENT))
    stored = webhook.decide(of_kind(gpu_model="A100-80")).stored
    [term] = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    term["matchExpressions"][0]["values"] = [f"host-{number}" for number in range(17)]
    assert webhook.decide(stored, uid="second").code != "unchanged"
