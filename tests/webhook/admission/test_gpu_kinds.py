"""The annotations for the kind of GPU: what of a cluster remains, and what is denied."""

import pytest

from modes.gpu_kinds import matches
from tests.ledger.cluster import gpu_node
from tests.webhook.support import as_body, container, decide, pod, policies, review_of
from tests.webhook.support.bounded_work import check
from tests.webhook.support.gpu_pods import JOBS, MEMORY, bound_to, job_of, slices_of, webhook_of

MODEL = "clearml-injector/gpu-model"
LEAST = "clearml-injector/min-gpu-memory"
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


def expressions(decided):
    required = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    return {(each["key"], each["operator"]): each.get("values") for each in term["matchExpressions"]}


@pytest.mark.parametrize(
    ("pattern", "model", "is_taken"),
    [
        ("A100", A100_40, True),
        ("A100-80", A100_80, True),
        ("A100-80", A100_40, False),
        ("a100-80gb", A100_80, True),
        ("A10", A100_40, False),
        ("A10*", A100_40, True),
        ("H100*", H100, True),
        ("H100-A100", H100, False),
        ("L4", "NVIDIA-L40S", False),
        ("L40", "NVIDIA-L40S", False),
        ("RTX-4090", "NVIDIA-GeForce-RTX-4090", True),
        ("T4", "Tesla-T4-SHARED", True),
        ("*", "", True),
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
    assert set(bound_values(decided)) <= {"81920", "81559"}


def bound_values(decided):
    return expressions(decided)["nvidia.com/gpu.memory", "In"]


def test_whole_gpus_have_a_least_memory_too():
    webhook = cluster(policy_set=policies('fractions: {"1": 8}'))
    decided = webhook.decide(of_kind("1", min_gpu_memory="60Gi"))
    assert expressions(decided) == {("nvidia.com/gpu.memory", "Gt"): ["61439"]}


def test_memory_of_a_model_takes_the_slices_of_that_model():
    decided = cluster().decide(of_kind(None, {MEMORY: "9Gi"}, gpu_model="A100-80"))
    assert (slices_of(decided), bound_to(decided)[-1]) == (1, 81920)
    decided = cluster().decide(of_kind(None, {MEMORY: "9Gi"}, gpu_model="A100-40"))
    assert (slices_of(decided), bound_to(decided)[0]) == (2, 40960)


def test_the_pods_own_affinity_keeps_its_terms():
    found = of_kind(gpu_model="H100", min_gpu_memory="1Gi")
    zone = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    found["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    decided = cluster().decide(found)
    assert expressions(decided)["kubernetes.io/hostname", "Exists"] is None
    assert {key for key, _ in expressions(decided)} >= {"nvidia.com/gpu.product", "nvidia.com/gpu.memory"}


def test_a_second_review_keeps_the_place_and_a_forged_model_does_not():
    webhook = cluster()
    stored = webhook.decide(of_kind(gpu_model="A100", min_gpu_memory="1Gi")).stored
    assert webhook.decide(stored, uid="second").patch == []
    stored["metadata"]["annotations"][MODEL] = "T4"
    assert webhook.decide(stored, uid="third").code != "unchanged"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "A100,",
        "A 100",
        "A100;H100",
        "[a]",
        "-A100",
        "A100-",
        "é",
        "A?",
        "x" * 300,
        ",".join("abcdefghi"),
    ],
)
def test_a_text_that_names_no_models_is_denied_in_one_line(text):
    decided = decide(of_kind(gpu_model=text))
    assert decided.code == "gpu-kind"
    assert decided.message.startswith(MODEL)
    assert len(decided.message) <= 200


@pytest.mark.parametrize("text", ["", "40", "40G", "4.5Gi", "0Gi", "x" * 300])
def test_a_text_that_is_no_amount_of_memory_is_denied_in_one_line(text):
    decided = decide(of_kind(min_gpu_memory=text))
    assert decided.code == "gpu-kind"
    assert decided.message.endswith('use a whole number of Mi or Gi, such as "512Mi" or "4Gi"')
    assert decided.message.startswith(LEAST)


def test_a_place_on_smaller_gpus_is_not_kept():
    webhook = cluster()
    found = webhook.decide(of_kind(gpu_model="T4")).stored
    found["metadata"]["annotations"][LEAST] = "40Gi"
    assert webhook.decide(found, uid="second").code == "gpu-index-set"


def test_a_job_whose_pods_could_never_be_admitted_is_denied_itself():
    assert decide(job_of(of_kind(gpu_model=",,")), resource=JOBS).code == "gpu-kind"


def test_a_model_that_no_node_has_is_denied_with_those_that_are_known():
    decided = cluster().decide(of_kind(gpu_model="B200"))
    assert decided.code == "no-matching-node"
    assert "no GPU has one of its models: the cluster has" in decided.message
    assert decided.message.endswith("fix the annotation")


def test_a_least_memory_that_no_node_has_is_denied_with_the_largest():
    decided = cluster().decide(of_kind(gpu_model="A100-40", min_gpu_memory="60Gi"))
    assert "no accepted GPU has 61440 MiB, the largest has 40960: request less" in decided.message


ASSUMED = "assume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"
WITHOUT_GPUS = gpu_node("cpu", count=0, labels={}, gpu_mib=None, slices_per_gpu=0)


@pytest.mark.parametrize("there", [WITHOUT_GPUS, node("Tesla-T4", 15360)])
def test_larger_gpus_of_nodes_to_come_are_waited_for_next_to_nodes_that_are_there(there):
    webhook = webhook_of(there, policy_set=policies(ASSUMED))
    decided = webhook.decide(of_kind(min_gpu_memory="40Gi"))
    assert expressions(decided) == {("nvidia.com/gpu.memory", "Gt"): ["40959"]}
    assert webhook.decide(of_kind(min_gpu_memory="90Gi")).code == "no-matching-node"
    assert webhook.decide(of_kind(min_gpu_memory="40Gi", gpu_model="T4")).code == "no-matching-node"


def test_where_no_node_has_a_gpu_that_is_what_is_said():
    decided = webhook_of(WITHOUT_GPUS).decide(of_kind(min_gpu_memory="40Gi"))
    assert "no GPUs are offered on 1 node" in decided.message


def test_nodes_that_do_not_exist_yet_are_taken_by_their_memory():
    webhook = webhook_of(policy_set=policies("assume: {gpusPerNode: 2, gpuMemoryMiB: 24576}"))
    assert webhook.decide(of_kind(min_gpu_memory="20Gi")).allowed
    assert webhook.decide(of_kind(min_gpu_memory="40Gi")).code == "no-matching-node"


def bound_to_models(*values_of_terms):
    """A pod that says that it was injected before, with a required term for each list of models."""
    terms = [
        {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": values}]}
        for values in values_of_terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    said = {"injected": "default@1", "gpu-model": "b-b*,c-c*,d-d*,e-e*,f-f*,g-g*,h-h*,a*"}
    return pod(
        containers=[container(limits={"nvidia.com/gpu-0": "4"})],
        metadata={"annotations": {f"clearml-injector/{name}": text for name, text in said.items()}},
        affinity={"nodeAffinity": required},
    )


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
    outcome = check(as_body(review_of(bound_to_models(*values_of_terms))))
    assert outcome.reason == "gpu-index-set"


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


def test_a_limit_that_is_written_shuts_out_hosts_whose_card_has_less():
    webhook = mixed(A100_80, A100_40)
    decided = [webhook.decide(of_kind("0.875"), uid=uid) for uid in "abcd"]
    for each in decided:
        index = each.stored["metadata"]["annotations"]["clearml-injector/gpu-index"]
        assert (index, *bound_values(each)) in {("0", "81920"), ("0", "40960"), ("1", "40960")}


def test_names_of_hosts_are_read_back_as_they_were_written_and_no_longer_lists():
    webhook = mixed(A100_40, A100_80, policy_set=policies(BY_AGENT))
    stored = webhook.decide(of_kind(gpu_model="A100-80")).stored
    [term] = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    term["matchExpressions"][0]["values"] = [f"host-{number}" for number in range(17)]
    assert webhook.decide(stored, uid="second").code != "unchanged"
