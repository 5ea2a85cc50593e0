"""A pod lands only where its MiB is right, and should land where there is room."""

import pytest

from tests.webhook.support import decide, pod, policies
from tests.webhook.support.gpu_pods import expressions, pooled_node, webhook_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize("terms", [[{}], [], None, [{"matchExpressions": []}, {"matchFields": None}]])
def test_a_required_affinity_of_empty_terms_alone_is_denied(terms):
    decided = decide(pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}))
    assert decided.code == "affinity-matches-nothing"
    assert decided.message == (
        "the required node affinity has only empty terms, which match no node: add an expression to a term"
    )


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
    wanted = {(each["key"], each["operator"]): each["values"] for each in more}
    assert expressions(decided) == {("nvidia.com/gpu.memory", "In"): ["23028"], **wanted}
