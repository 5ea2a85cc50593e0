"""Quotas of mode dra on a real control plane: pods that come at once, and pods that wait for their quota."""

import json

import pytest

from kube.names import QUOTA_GATE
from testbed.process import eventually
from tests.cli.running import run
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import POLICY, allocated, create, running

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
pytestmark = test_claims_of_shares.pytestmark


@pytest.fixture
def limited(control_plane, namespace, offer, serve):
    """Offer a node's cards, and start the webhook and its controller under quotas of the namespace."""

    def one(quotas, *cards):
        offer([*cards])
        policy = f"{POLICY}\nquotas: {{{quotas.replace('NAMESPACE', namespace)}}}"
        serve(policy, "--claim-templates")
        stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quota-policies"}}
        text = f"kind: Policy\nname: default\n{policy}"
        control_plane.api.create({**stored, "data": {"all.yaml": text}}, namespace)

    return one


def used(control_plane, namespace):
    """The quota of the namespace as `fraction-injector quota` shows it."""
    arguments = ("--namespace", namespace, "-o", "json", "--kubeconfig", control_plane.kubeconfig)
    ended = run("quota", *arguments, f"--release={namespace}/quota")
    assert ended.returncode == 0, ended.stderr
    [found] = json.loads(ended.stdout)
    return {unit: found[unit]["used"] for unit in ("slices", "pods", "memoryMiB")} | {
        "waiting": found["waiting"]
    }


def test_a_pod_over_its_quota_waits_and_runs_later(control_plane, namespace, limited):
    limited("namespaces: {NAMESPACE: {slices: 5}}, whenOverQuota: wait", 81920, 81920)
    create(control_plane, namespace, ["first"], "0.625")
    eventually(lambda: running(control_plane, namespace) == {"first"}, "the first runs")
    [waits] = create(control_plane, namespace, ["second"], "0.125")
    assert [gate["name"] for gate in waits["spec"]["schedulingGates"]] == [QUOTA_GATE]
    eventually(lambda: used(control_plane, namespace)["waiting"] == 1, "it is in the line")
    assert used(control_plane, namespace)["slices"] == 5
    assert len(allocated(control_plane, namespace)) == 1
    about = lambda: control_plane.api.events(namespace, "second", "WaitingForQuota")  # noqa: E731
    said = eventually(about, "it is told why")[0]["message"]
    assert f"1 of 1 in the line of the quota of namespace {namespace}: 5 of 5 slices are used" in said
    why = run("why", "second", "--namespace", namespace, "--kubeconfig", control_plane.kubeconfig)
    assert f"the quota of namespace {namespace}" in why.stdout, why.stderr
    control_plane.api.delete("Pod", "first", namespace)
    eventually(lambda: running(control_plane, namespace) == {"second"}, "the quota has room")
    assert used(control_plane, namespace)["slices"] == 1
