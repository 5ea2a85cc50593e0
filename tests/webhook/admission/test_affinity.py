"""A pod lands only where its MiB is right, and should land where there is room."""

import pytest

from tests.webhook.support import decide, pod, policies
from tests.webhook.support.gpu_pods import pooled_node, webhook_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


SMALL = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["23028"]}


ON_GPU_3 = {
    "weight": 100,
    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]},
}


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None}}])
def test_a_pod_without_node_affinity_is_bound_to_the_memory_and_prefers_the_node(affinity):
    decided = decide(pod(affinity=affinity))
    assert decided.spec["affinity"]["nodeAffinity"] == {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SMALL]}]},
        PREFERRED: [ON_GPU_3],
    }


def test_other_affinity_stays():
    other = {"podAffinity": {"x": 1}, "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"y": 2}}]}}
    affinity = decide(pod(affinity=other)).spec["affinity"]
    assert affinity["podAffinity"] == {"x": 1}
    assert affinity["nodeAffinity"][PREFERRED] == [{"weight": 1, "preference": {"y": 2}}, ON_GPU_3]


def test_the_memory_expression_enters_every_term_that_is_not_empty():
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]
    present = {"key": "nvidia.com/gpu.present", "operator": "Exists"}
    terms = [
        {},
        {"matchFields": fields},
        {"matchExpressions": []},
        {"matchExpressions": [present], "matchFields": fields},
        {"matchExpressions": None, "matchFields": fields},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    after = decide(pod(affinity=affinity)).spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert after == [
        {},
        {"matchFields": fields, "matchExpressions": [SMALL]},
        {"matchExpressions": []},
        {"matchExpressions": [present, SMALL], "matchFields": fields},
        {"matchExpressions": [SMALL], "matchFields": fields},
    ]


@pytest.mark.parametrize("terms", [[{}], [], None, [{"matchExpressions": []}, {"matchFields": None}]])
def test_a_required_affinity_of_empty_terms_alone_is_denied(terms):
    decided = decide(pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}))
    assert decided.code == "affinity-matches-nothing"
    assert decided.message == (
        "the required node affinity has only empty terms, which match no node: add an expression to a term"
    )


def test_a_node_selector_does_not_spare_the_expression():
    decided = decide(pod(nodeSelector={"nvidia.com/gpu.memory": "81920"}))
    (term,) = decided.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["81920"]
    assert decided.annotations["clearml-injector/memory-mib"] == "40960"


def test_an_assumed_gpu_binds_no_memory_and_prefers_no_node():
    policy_set = policies("assume: {gpusPerNode: 4, gpuMemoryMiB: 16384}")
    decided = decide(pod(nodeSelector={"pool": "not-yet"}), policy_set)
    assert decided.annotations["clearml-injector/memory-mib"] == "8192"
    assert "affinity" not in decided.spec
    assert decided.reply["response"]["auditAnnotations"]["note"] == "degraded"


REFUSING = [
    {"key": "nvidia.com/gpu.sharing-strategy", "operator": "NotIn", "values": ["mps"]},
    {"key": "cloud.google.com/gke-gpu-sharing-strategy", "operator": "NotIn", "values": ["time-sharing"]},
]
"""Nodes whose device plugin fails a container that requests more than one slice."""


@pytest.mark.parametrize(("fraction", "more"), [("0.500", REFUSING), ("0.125", [])])
def test_several_slices_of_a_pool_keep_off_nodes_whose_device_plugin_would_fail_them(fraction, more):
    webhook = webhook_of(pooled_node("a", mib=23028), policy_set=policies("resources: {mode: pooled}"))
    decided = webhook.decide(pod(fraction=fraction))
    (term,) = decided.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [SMALL, *more]
