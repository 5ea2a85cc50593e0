"""Turning the product off on a real API server: as the notes say, and by uninstalling; what is left then."""

import re

import pytest

from testbed.api import ApiError
from testbed.chart import ADMISSION, CHART, RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, labelled_pod, probe, refuses
from tests.control_plane.admission_policies.support import unlabelled_pod

OTHER = "other-name"

pytestmark = pytest.mark.usefixtures("no_release_left")


def test_the_notes_turn_it_off_and_uninstall_leaves_the_crd_alone(helm, control_plane, namespace):
    api = control_plane.api
    notes = helm.apply({}).splitlines()
    off = [line.partition("kubectl ")[2].split() for line in notes if "kubectl delete" in line]
    eventually(lambda: refuses(probe(api, namespace)), "labelled pods are stopped: no webhook answers")
    with pytest.raises(ApiError, match="failed calling webhook") as refused:
        api.create(labelled_pod("labelled"), namespace)
    assert refused.value.code == 500
    api.create(unlabelled_pod(), namespace)
    for excluded in (OWN_NAMESPACE, "kube-system"):
        api.create(labelled_pod("labelled"), excluded, dry_run=True)
    assert [control_plane.kubectl(*command).code for command in off] == [0, 0]
    eventually(lambda: not refuses(probe(api, namespace)), "labelled pods are created again")
    helm.uninstall()
    left = control_plane.kubectl(
        "get",
        "--all-namespaces",
        "--output=name",
        f"--selector=app.kubernetes.io/instance={RELEASE}",
        "mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "clusterroles,clusterrolebindings,roles,rolebindings,secrets,configmaps,services,deployments,"
        "serviceaccounts,networkpolicies,poddisruptionbudgets,priorityclasses",
    )
    assert (left.code, left.stdout) == (0, "")
    assert control_plane.kubectl("get", "crd", "gpuledgers.clearml-injector.io").code == 0


def test_uninstalling_a_failed_revision_leaves_nothing_that_stops_pods(helm, control_plane, namespace):
    api = control_plane.api
    helm.apply({})
    by_hand = {"spec": {"replicas": 3}}
    api.patch("Deployment", f"{RELEASE}-webhook", by_hand, OWN_NAMESPACE, "apps/v1")
    without_lock = {"secondLock": {"enabled": False}, "webhook": {"replicas": 4}}
    failed = helm.run("upgrade", RELEASE, str(CHART), helm.values(without_lock))
    assert "Apply failed with 1 conflict" in failed.stderr
    eventually(lambda: refuses(probe(api, namespace)), "labelled pods are stopped: no webhook answers")
    helm.uninstall()
    of_release = f"app.kubernetes.io/instance={RELEASE}"
    left = api.list("ValidatingAdmissionPolicyBinding", api=ADMISSION, labels=of_release)
    assert left, "Helm knows only the last revision's objects"
    eventually(lambda: not refuses(probe(api, namespace)), "labelled pods are created again")
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        for obj in api.list(kind, api=ADMISSION, labels=of_release):
            api.delete(kind, obj["metadata"]["name"], api=ADMISSION)


def test_the_notes_warn(helm):
    careless = {
        "webhook": {"replicas": 1, "failurePolicy": "Ignore"},
        "podDisruptionBudget": {"enabled": False},
        "secondLock": {"enabled": False},
    }
    quiet, warned = (
        helm.run("install", RELEASE, str(CHART), "--dry-run=client", helm.values(values)).stdout
        for values in ({}, careless)
    )
    assert "WARNING" not in quiet
    for what in (
        "one webhook replica",
        "no PodDisruptionBudget",
        "the second lock is off",
        "failurePolicy Ignore",
    ):
        assert f"WARNING: {what}." in warned


def test_another_release_learns_how_to_adopt_or_remove_the_kept_crds_and_it_works(helm, control_plane):
    helm.apply({})
    helm.uninstall()
    refused = helm.run("install", OTHER, str(CHART), helm.values({}))
    assert refused.code != 0
    assert f'CRDs of release "{RELEASE}" of namespace "{OWN_NAMESPACE}" are still there' in refused.stderr
    adopt = re.search(r"Adopt them: (.*)", refused.stderr)[1]
    remove = re.search(r"with all GpuLedgers and GpuNodes: kubectl (.*)", refused.stderr)[1]
    assert control_plane.kubectl(*remove.split(), "--dry-run=server").code == 0
    for command in adopt.split(" && "):
        assert control_plane.kubectl(*command.split()[1:]).code == 0, command
    try:
        installed = helm.run("install", OTHER, str(CHART), helm.values({}))
        assert (installed.code, installed.stderr) == (0, "")
    finally:
        helm.run("uninstall", OTHER)
        back = [
            word.replace(f"release-name={OTHER}", f"release-name={RELEASE}")
            for word in adopt.split(" && ")[1].split()
        ]
        assert control_plane.kubectl(*back[1:]).code == 0
