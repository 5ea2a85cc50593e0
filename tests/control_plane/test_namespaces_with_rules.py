"""Namespaces that judge or change pods: what we add must not be what they complain of."""

import json

import pytest
import yaml

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.test_manifests import MANIFESTS, PODS, unlabelled

LIMITS = {
    "type": "Container",
    "default": {"cpu": "2", "memory": "4Gi"},
    "defaultRequest": {"cpu": "1", "memory": "2Gi"},
    "max": {"cpu": "8", "memory": "32Gi"},
    "min": {"cpu": "100m", "memory": "64Mi"},
}
HARD = {"requests.cpu": "4", "requests.memory": "8Gi", "limits.cpu": "4", "limits.memory": "8Gi"}


@pytest.fixture
def ready(nodes, webhook):
    """The product's webhook with room for every manifest."""
    nodes(*[GpuNode(gpus=8, product="A100-SXM4-80GB")] * 3, names=("gpu-0", "gpu-1", "gpu-2"))
    webhook()


SOME = ["bare", *PODS[::4]]
"""Of the fixtures, pods of many kinds."""


def applied(kubectl, namespace, make):
    """What kubectl says of some manifests, and the QoS class, by name of manifest; nothing is stored."""
    found = {}
    for name in SOME:
        pod = make(yaml.safe_load(MANIFESTS[name].read_text()))
        options = ("--dry-run=server", "--output=json", "--filename=-")
        answer = kubectl("create", *options, stdin=yaml.safe_dump(pod))
        found[name] = answer.code, answer.stderr, json.loads(answer.stdout)["status"]["qosClass"]
    return found


def test_a_restricted_namespace_warns_of_nothing_that_is_ours(ready, kubectl, control_plane, namespace):
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    control_plane.api.patch("Namespace", namespace, {"metadata": {"labels": labels}})
    expected = applied(kubectl, namespace, unlabelled)
    assert expected["bare"][1].startswith("Warning: would violate PodSecurity")
    assert applied(kubectl, namespace, dict) == expected


def test_a_limit_range_accepts_what_is_ours_and_the_qos_class_stays(ready, kubectl, control_plane, namespace):
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}}
    control_plane.api.create({**limits, "spec": {"limits": [LIMITS]}}, namespace)
    expected = applied(kubectl, namespace, unlabelled)
    assert {(code, stderr) for code, stderr, _ in expected.values()} == {(0, "")}
    assert applied(kubectl, namespace, dict) == expected


def test_a_quota_counts_an_injected_pod_as_it_counted_it_before(ready, kubectl, control_plane, namespace):
    def used():
        return control_plane.api.get("ResourceQuota", "quota", namespace).get("status", {}).get("used")

    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}}
    control_plane.api.create({**quota, "spec": {"hard": HARD}}, namespace)
    eventually(used, "the quota counts")
    pod = labelled_pod("counted")
    amounts = {"cpu": "4", "memory": "8Gi"}
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    answer = kubectl("apply", "--filename=-", stdin=yaml.safe_dump(pod))
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/counted created\n", "")
    assert control_plane.api.get("Pod", "counted", namespace)["status"]["qosClass"] == "Guaranteed"
    assert used() == HARD
