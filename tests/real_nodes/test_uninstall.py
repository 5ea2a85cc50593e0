"""The release taken out for good; the tests of this folder that need it run before."""

from testbed.chart import RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.real_nodes.conftest import WORK
from tests.real_nodes.load import task


def test_what_runs_runs_on_and_labelled_pods_come_in_as_they_are(installation, cluster):
    cluster.api.create(task("stays", "0.250"), WORK)
    eventually(lambda: phase(cluster, "stays") == "Running", "a task runs")
    assert installation.helm.run("uninstall", RELEASE, "--wait").code == 0
    for command in (
        "delete crd gpuledgers.clearml-injector.io gpunodes.clearml-injector.io",
        f"delete namespace {OWN_NAMESPACE}",
    ):
        assert cluster.kubectl(*command.split()).code == 0
    stored = cluster.api.create(task("after", "0.250"), WORK)
    assert "annotations" not in stored["metadata"]
    eventually(lambda: phase(cluster, "after") == "Running", "a labelled pod starts without slices")
    assert phase(cluster, "stays") == "Running"
    eventually(lambda: [pod for _, pod, _ in cluster.held_slices()] == ["stays"], "it alone has slices")
    kinds = "mutatingwebhookconfigurations,validatingadmissionpolicies,clusterroles,priorityclasses"
    left = cluster.kubectl("get", kinds, "--output=name", "--selector=app.kubernetes.io/instance=" + RELEASE)
    assert left.stdout == ""


def phase(cluster, name):
    return cluster.api.get("Pod", name, WORK)["status"].get("phase")
