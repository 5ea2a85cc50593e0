"""Turning the product off on a real API server: as the notes say, and by uninstalling; what is left then."""

import time
from pathlib import Path

import pytest

from testbed.chart import ADMISSION, CHART, RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, probe, refuses

pytestmark = pytest.mark.usefixtures("no_release_left")


def test_uninstall_leaves_the_crd_and_nothing_that_stops_pods(helm, control_plane, namespace):
    api = control_plane.api
    helm.apply({})
    eventually(lambda: refuses(probe(api, namespace)), "labelled pods are stopped: no webhook answers")
    uninstalled = uninstall(helm)
    eventually(lambda: not refuses(probe(api, namespace)), "labelled pods are created again")
    say_how_long("a release", uninstalled)
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
    uninstalled = uninstall(helm)
    left = api.list("ValidatingAdmissionPolicyBinding", api=ADMISSION)
    assert left, "Helm knows only the last revision's objects"
    eventually(lambda: not refuses(probe(api, namespace)), "labelled pods are created again")
    say_how_long("a failed revision", uninstalled)
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        for obj in api.list(kind, api=ADMISSION):
            api.delete(kind, obj["metadata"]["name"], api=ADMISSION)


def uninstall(helm):
    """Remove the release; when that was done."""
    helm.uninstall()
    return time.monotonic()


def say_how_long(what, since):
    """Print how long the API server still refused labelled pods."""
    print(f"after the uninstall of {what}, labelled pods were refused for {time.monotonic() - since:.1f} s")  # noqa: T201 - a figure


NOTES = {
    "one replica": ({"webhook": {"replicas": 1}}, "WARNING: one webhook replica."),
    "no budget": ({"podDisruptionBudget": {"enabled": False}}, "WARNING: no PodDisruptionBudget."),
    "no lock": ({"secondLock": {"enabled": False}}, "WARNING: the second lock is off."),
    "failing open": ({"webhook": {"failurePolicy": "Ignore"}}, "WARNING: failurePolicy Ignore."),
}


@pytest.mark.parametrize("case", NOTES.values(), ids=NOTES)
def test_the_notes_warn(helm, case):
    values, warning = case
    quiet, warned = (
        helm.run("install", RELEASE, str(CHART), "--dry-run=client", helm.values(v)) for v in ({}, values)
    )
    assert warning in warned.stdout
    assert warning not in quiet.stdout


def test_the_notes_say_how_to_turn_it_off_and_it_works(helm, control_plane, namespace):
    notes = helm.apply({})
    commands = [
        line.partition("kubectl ")[2].split() for line in notes.splitlines() if "kubectl delete" in line
    ]
    assert len(commands) == 2
    eventually(lambda: refuses(probe(control_plane.api, namespace)), "labelled pods are stopped")
    for command in commands:
        assert control_plane.kubectl(*command).code == 0
    eventually(lambda: not refuses(probe(control_plane.api, namespace)), "labelled pods come in as they are")


def test_the_paths_in_the_notes_exist(helm):
    notes = helm.run("install", RELEASE, str(CHART), "--dry-run=client", helm.values({})).stdout
    named = {word.strip(";:,.") for word in notes.split() if word.startswith("docs/")}
    assert named
    for path in named:
        assert Path(CHART.parents[1], path).exists(), path
