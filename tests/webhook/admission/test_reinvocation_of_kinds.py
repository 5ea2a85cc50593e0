"""What pods demand of the kind of GPU, in mixed clusters: a second review knows the first's."""

from itertools import product

import pytest

from tests.effort import by_turns
from tests.ledger.cluster import gpu_node
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import CONTAINERS, GPUS, MEMORY, pooled_node, webhook_of

CARDS = {
    "Tesla-T4": 15360,
    "NVIDIA-A10": 23028,
    "NVIDIA-A10G": 23030,
    "NVIDIA-L4": 23034,
    "NVIDIA-A100-SXM4-40GB": 40960,
    "NVIDIA-A100-SXM4-80GB": 81920,
    "NVIDIA-H100-PCIe": 81559,
}
INVENTORIES = {
    "all cards": tuple(CARDS),
    "three of nearly 23 GB": ("NVIDIA-A10", "NVIDIA-A10G", "NVIDIA-L4"),
    "two of nearly 80 GB": ("NVIDIA-H100-PCIe", "NVIDIA-A100-SXM4-80GB"),
    "small and large": ("Tesla-T4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"),
}
LABELS = {
    **{f"memory {text}": {MEMORY: text} for text in ("1Gi", "4Gi", "6Gi", "10Gi", "11518Mi", "20Gi")},
    **{f"fraction {text}": {"clearml-injector/fraction": text} for text in ("0.125", "0.500", "0.875")},
}
KINDS = {
    **{f"least {text}": {"min-gpu-memory": text} for text in ("1Gi", "20Gi", "23030Mi", "24Gi", "81560Mi")},
    **{f"model {text}": {"gpu-model": text} for text in ("A10*", "A100-80,H100", "L4,T4", "*")},
    "both": {"gpu-model": "A100", "min-gpu-memory": "24Gi"},
    "both, exactly": {"gpu-model": "A10G,L4", "min-gpu-memory": "23030Mi"},
    "neither": {},
}
FORMS = {
    "one GPU": {},
    "two GPUs": {GPUS: "2"},
    "two containers": {CONTAINERS: "train=3Gi,eval=1Gi"},
}
EVERY_POLICY = by_turns("webhook", usual=4, full=1)
"""In each inventory, pods are tried under each so-many-th policy."""
FORMS_OF_A_PAIR = by_turns("webhook", usual=1, full=len(FORMS))
POLICIES = {
    "per-gpu": "memory: {allowed: true}",
    "pooled": "resources: {mode: pooled}\nmemory: {allowed: true}",
    "reserve": "memory: {allowed: true, reserveMiB: 100}",
    "agent": "limits: {from: agent}",
    "any-gpu": "memory: {allowed: true}\ncontainers: any-gpu",
    "assume": "memory: {allowed: true}\nassume: {gpusPerNode: 2, gpuMemoryMiB: 81920}",
}


def card(model, mode):
    made = pooled_node(model, mib=CARDS[model]) if mode == "pooled" else gpu_node(model, mib=CARDS[model])
    made.labels["nvidia.com/gpu.product"] = model
    return made


def asking(label, kinds, form):
    annotations = {f"clearml-injector/{name}": text for name, text in kinds.items()}
    found = pod(fraction=None, labels=label)
    found["metadata"]["annotations"] = {**annotations, **form}
    if CONTAINERS in form:
        found["spec"]["containers"].append({"name": "eval", "image": "example.com/eval:1"})
    return found


def asking_pairs():
    """Pods that ask for every share with every kind, and for each of the two in every form."""
    counted = product(*(enumerate(each.values()) for each in (LABELS, KINDS, FORMS)))
    for (row, label), (column, kinds), (number, form) in counted:
        if (row + column + number) % len(FORMS) < FORMS_OF_A_PAIR:
            yield asking(label, kinds, form)


def cells():
    for row, inventory in enumerate(INVENTORIES):
        for column, policy in enumerate(POLICIES):
            if (row + column) % EVERY_POLICY == 0:
                yield inventory, policy


@pytest.mark.parametrize(("inventory", "policy"), list(cells()))
def test_every_pair_of_a_share_and_kinds_is_known_again(inventory, policy):
    admitted = 0
    policy_set = policies(POLICIES[policy])
    for found in asking_pairs():
        nodes = [card(model, policy) for model in INVENTORIES[inventory]]
        webhook = webhook_of(*nodes, policy_set=policy_set)
        admitted += webhook.decide(found).allowed  # which reviews it again
    assert admitted > len(LABELS) * len(KINDS) * FORMS_OF_A_PAIR // 9


def test_a_pod_is_bound_to_the_memory_of_cards_that_it_takes_alone():
    nodes = [card(model, "per-gpu") for model in INVENTORIES["three of nearly 23 GB"]]
    decided = webhook_of(*nodes).decide(asking({MEMORY: "4Gi"}, {"min-gpu-memory": "23030Mi"}, {}))
    required = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    said = [(each["operator"], *each["values"]) for each in term["matchExpressions"]]
    assert said == [("In", "23030", "23034"), ("Gt", "23029")]


def test_a_pod_that_an_older_replica_bound_to_a_card_that_is_shut_out_keeps_its_place():
    nodes = [card(model, "per-gpu") for model in INVENTORIES["three of nearly 23 GB"]]
    webhook = webhook_of(*nodes)
    found = webhook.decide(asking({MEMORY: "4Gi"}, {"min-gpu-memory": "23030Mi"}, {})).stored
    required = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = ["23028", "23030", "23034"]
    assert webhook.decide(found, uid="second").patch == []
