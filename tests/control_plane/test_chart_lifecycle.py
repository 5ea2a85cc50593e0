"""Install, upgrade and rollback on a real API server, and no drift in between."""

import base64
import json
import shutil
import subprocess

import pytest
import yaml

from testbed.api import MERGE_PATCH
from testbed.chart import ADMISSION, CHART, CONFIGURATION, RELEASE, objects_of
from testbed.controller_process import CRDS, install_crd
from testbed.process import eventually

pytestmark = pytest.mark.usefixtures("no_release_left")
CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
CRD_NAME = "gpuledgers.clearml-injector.io"
RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


def entry(api):
    [found] = api.get(CONFIGURATION, RELEASE, api=ADMISSION)["webhooks"]
    return found


def inject_ca(api):
    """As the controller does it: by JSON Patch, with a field manager of its own."""
    patch = [
        {"op": "test", "path": "/webhooks/0/name", "value": "fractions.clearml-injector.io"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": CA},
    ]
    path = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{RELEASE}"
    query = {"fieldManager": "fraction-injector-certificates"}
    api.call("PATCH", path, patch, query, "application/json-patch+json")


def drift(control_plane, manifest):
    """What applying the same objects again would change, as a GitOps tool shows it."""
    how = ("--server-side", "--force-conflicts", "--filename=-")
    found = control_plane.kubectl("diff", *how, stdin=manifest)
    return found.stdout + found.stderr


EVERYTHING = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text())
EVERYTHING["nameOverride"] = RELEASE


@pytest.mark.oldest_kubernetes
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_what_is_installed_is_what_was_rendered(helm, control_plane, values):
    helm.apply(values)
    assert drift(control_plane, without_crds(helm.manifest(values))) == ""


def test_a_second_installation_is_refused_and_the_first_can_be_upgraded(helm, control_plane):
    helm.apply({})
    second = helm.run("upgrade", "--install", "another", str(CHART), helm.values({}))
    assert second.code != 0
    assert f'the cluster has an installation already, release "{RELEASE}" with' in second.stderr
    assert "upgrade that one, or uninstall it first" in second.stderr
    helm.apply({"webhook": {"replicas": 1}})
    names = [found["metadata"]["name"] for found in control_plane.api.list(CONFIGURATION, api=ADMISSION)]
    assert (RELEASE in names, any("another" in name for name in names)) == (True, False)


def columns(control_plane):
    crd = control_plane.api.call("GET", f"{CRDS}/{CRD_NAME}")
    return [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]


def test_an_upgrade_brings_the_crd_up_to_date_and_an_uninstall_leaves_it(helm, control_plane, tmp_path):
    helm.apply({})
    # Tests before this one may have applied it too: of a field that they own, Helm changes nothing.
    path = f"{CRDS}/{CRD_NAME}"
    owners = control_plane.api.call("GET", path)["metadata"]["managedFields"]
    left = {"metadata": {"managedFields": [each for each in owners if each["manager"] != "test"]}}
    control_plane.api.call("PATCH", path, left, content=MERGE_PATCH)
    before = columns(control_plane)
    newer = shutil.copytree(CHART, tmp_path / "newer")
    file = newer / "files" / "crds" / "gpuledgers.yaml"
    file.write_text(file.read_text().replace("name: Largest-Free", "name: Largest"))
    helm.apply({}, chart=newer)
    assert columns(control_plane) == ["Largest" if name == "Largest-Free" else name for name in before]
    helm.run("uninstall", RELEASE)
    assert "Largest" in columns(control_plane)
    helm.apply({})
    assert columns(control_plane) == before


def test_a_crd_that_helm_did_not_make_is_not_taken_over_unasked(helm, control_plane):
    install_crd(control_plane.api)
    no_owner = {"metadata": {"annotations": {"meta.helm.sh/release-name": None, RELEASE_NAMESPACE: None}}}
    control_plane.api.call("PATCH", f"{CRDS}/{CRD_NAME}", no_owner, content=MERGE_PATCH)
    try:
        refused = helm.run("upgrade", "--install", RELEASE, str(CHART), helm.values({}))
        assert refused.code != 0
        assert f'CustomResourceDefinition "{CRD_NAME}"' in refused.stderr
        assert "cannot be imported into the current release" in refused.stderr
        helm.apply({"crds": {"enabled": False}})
        taken = helm.run("upgrade", RELEASE, str(CHART), "--take-ownership", helm.values({}))
        assert taken.code == 0, taken.stderr
    finally:
        install_crd(control_plane.api)


def test_upgrades_and_rollbacks_keep_the_ca(helm, control_plane):
    api = control_plane.api
    helm.apply({})
    assert "caBundle" not in entry(api)["clientConfig"]
    inject_ca(api)
    for replicas in (3, 3):
        helm.apply({"webhook": {"replicas": replicas}})
        assert entry(api)["clientConfig"]["caBundle"] == CA
    helm.apply({"webhook": {"timeoutSeconds": 7}})
    assert [entry(api)["timeoutSeconds"], entry(api)["clientConfig"]["caBundle"]] == [7, CA]
    rolled_back = helm.run("rollback", RELEASE, "1")
    assert rolled_back.code == 0, rolled_back.stderr
    assert [entry(api)["timeoutSeconds"], entry(api)["clientConfig"]["caBundle"]] == [5, CA]
    assert drift(control_plane, without_crds(helm.manifest({}))) == ""


@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_gitops_without_helm_keeps_the_ca_too(helm, control_plane, how):
    manifest = without_crds(helm.manifest({}))

    def kubectl(*arguments):
        done = control_plane.kubectl(*arguments, "--filename=-", stdin=manifest)
        assert (done.code, done.stderr) == (0, "")
        return done.stdout

    try:
        kubectl("apply", *how)
        inject_ca(control_plane.api)
        before = generations(kubectl("get", "--output=json"))
        kubectl("apply", *how)
        assert generations(kubectl("get", "--output=json")) == before
        assert entry(control_plane.api)["clientConfig"]["caBundle"] == CA
    finally:
        kubectl("delete")


def without_crds(manifest):
    """A manifest's other objects: the CRD may stand already, and stays."""
    objects = (obj for obj in objects_of(manifest) if obj["kind"] != "CustomResourceDefinition")
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper)


def generations(listed):
    """How often each object's content has changed."""
    items = json.loads(listed)["items"]
    return [(item["kind"], item["metadata"]["name"], item["metadata"].get("generation")) for item in items]


def previous_chart(folder):
    """The chart of the commit before this one."""
    archive = ["git", "archive", "HEAD^", str(CHART.relative_to(CHART.parents[1]))]
    found = subprocess.run(archive, cwd=CHART.parents[1], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"no previous commit with a chart: {found.stderr.decode().strip()}")
    subprocess.run(["tar", "--extract", f"--directory={folder}"], input=found.stdout, check=True)
    return folder / CHART.relative_to(CHART.parents[1])


def test_the_previous_commits_chart_can_be_upgraded(helm, control_plane, tmp_path):
    helm.apply({}, previous_chart(tmp_path))
    inject_ca(control_plane.api)
    for _ in range(2):
        helm.apply({})
        assert entry(control_plane.api)["clientConfig"]["caBundle"] == CA
    assert drift(control_plane, without_crds(helm.manifest({}))) == ""


@pytest.mark.oldest_kubernetes
def test_the_api_server_finds_no_type_error_in_the_second_lock(helm, control_plane):
    helm.apply({})
    kind, release = "ValidatingAdmissionPolicy", f"app.kubernetes.io/instance={RELEASE}"

    def checked():
        found = control_plane.api.list(kind, api=ADMISSION, labels=release)
        return found if all(each.get("status") for each in found) else []

    policies = eventually(checked, "all are checked")
    assert len(policies) > 8
    wrong = {each["metadata"]["name"]: each["status"]["typeChecking"] for each in policies}
    assert {name: found for name, found in wrong.items() if found} == {}
