"""Labels and amounts are judged by one set of rules: by the webhook and by `check` alike."""

import json

import pytest

from cli.queue_pods import all_mistakes
from ledger.ledger import Ledger
from modes.facts import NodeFact
from policies.loading.clearml_chart import read_chart_values
from policies.loading.strict_yaml import read_documents
from tests.webhook.support import LABEL, Webhook, container, pod, policies, review_of

TABLE = 'fractions: {"0.125": 1, "0.250": 2, "0.500": 4, "1.000": 8, "2": 16}'
POLICIES = {
    "per-gpu": "",
    "per-gpu under an own name": "resources: {name: 'example.com/card-{index}'}",
    "pooled": "resources: {mode: pooled}\nallow: {resources: [nvidia.com/hostdev]}",
    "pooled under an own name": "resources: {mode: pooled, name: example.com/slice}",
}
LABELS = ["0.125", "0.500", "0.5", "1.000", "2", "3", "half", ""]
NAMES = "nvidia.com/gpu nvidia.com/gpu.shared example.com/slice clear.ml/fraction-1 nvidia.com/gpu-0"
NAMES += " nvidia.com/gpu-x example.com/card-0 example.com/card-x nvidia.com/mig-1g.5gb nvidia.com/hostdev"
NAMES += " amd.com/gpu example.com/licence"
AMOUNTS = "0 1 2 4 8 16 0.5 500m 125m 1k half -1"
LIMITS = [{}, {"nvidia.com/gpu": "1", "clear.ml/fraction-1": "0.25"}]
LIMITS += [{name: amount} for name in NAMES.split() for amount in AMOUNTS.split()]
RULES = {"injected", "label-not-allowed", "gpu-amount", "gpu-index-set", "other-gpu-system"}
LABELS_OF_NODES = {"nvidia.com/gpu.memory": "81920"}
NODES = [
    NodeFact(name="split", gpus=((0, 8), (1, 8)), slices_per_gpu=8, gpu_mib=81920, labels=LABELS_OF_NODES),
    NodeFact(name="pool", pooled=16, pooled_gpus=2, gpu_mib=81920, labels=LABELS_OF_NODES),
]


def ledger():
    made = Ledger()
    made.replace(NODES, [])
    return made


def queue_of(label, limits):
    template = {"labels": {LABEL: label}, "resources": {"limits": limits}}
    values = {"agentk8sglue": {"queues": {"q": {"templateOverrides": template}}}}
    found = read_chart_values("values.yaml", read_documents("values.yaml", json.dumps(values).encode()))
    assert found.problems == []
    return found.queues[0]


@pytest.mark.parametrize("keys", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("label", LABELS)
def test_the_webhook_and_check_agree(keys, label):
    policy_set = policies(f"{TABLE}\n{keys}")
    webhook, policy = Webhook(policy_set, ledger(), again=False), policy_set.resolve("default", None, None)
    seen, allowed = set(), label in policy.fractions
    for limits in LIMITS if allowed else LIMITS[:6]:
        found = pod(fraction=label, containers=[container(limits=limits)])
        decided = webhook.send(review_of(found, dryRun=True))
        problems = list(all_mistakes(queue_of(label, limits), policy))
        assert decided.code in RULES, decided.message
        assert bool(problems) is (decided.code != "injected"), (limits, decided.code, problems)
        seen.add(decided.code)
    assert seen == (RULES - {"label-not-allowed"} if allowed else {"label-not-allowed"})
