"""Quotas of mode dra on a real control plane: a pod waits for its quota, and runs when there is room."""

from kube.names import QUOTA_GATE
from testbed.process import eventually
from tests.cli.running import run
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import POLICY, allocated, create, running

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
pytestmark = test_claims_of_shares.pytestmark


def test_a_pod_over_its_quota_waits_and_runs_later(control_plane, namespace, offer, serve):
    offer([81920, 81920])
    quotas = f"{{namespaces: {{{namespace}: {{slices: 5}}}}, whenOverQuota: wait}}"
    serve(f"{POLICY}\nquotas: {quotas}", "--claim-templates")
    create(control_plane, namespace, ["first"], "0.625")
    eventually(lambda: running(control_plane, namespace) == {"first"}, "the first runs")
    [waits] = create(control_plane, namespace, ["second"], "0.125")
    assert [gate["name"] for gate in waits["spec"]["schedulingGates"]] == [QUOTA_GATE]
    assert len(allocated(control_plane, namespace)) == 1
    about = lambda: control_plane.api.events(namespace, "second", "WaitingForQuota")  # noqa: E731
    said = eventually(about, "it is told why")[0]["message"]
    assert f"1 of 1 in the line of the quota of namespace {namespace}: 5 of 5 slices are used" in said
    why = run("why", "second", "--namespace", namespace, "--kubeconfig", control_plane.kubeconfig)
    assert f"the quota of namespace {namespace}" in why.stdout, why.stderr
    control_plane.api.delete("Pod", "first", namespace)
    eventually(lambda: running(control_plane, namespace) == {"second"}, "the quota has room")
