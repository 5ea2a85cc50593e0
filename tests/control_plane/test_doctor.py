"""`fraction-injector doctor` on a real API server: it tries a pod, and `helm test` has all its rights."""

import base64
import json
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from testbed.chart import ADMISSION, CHART, RELEASE, Helm, objects_of
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.cli.running import run
from tests.control_plane.test_chart_rbac import kubeconfig_of


def trust(api, pem):
    """Have API servers trust another CA with the webhook."""
    ca = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": base64.b64encode(pem).decode()}
    path = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/fractions"
    api.call("PATCH", path, [ca], content="application/json-patch+json")


def test_a_pod_is_tried_in_a_dry_run(control_plane, namespace, nodes, webhook):
    [node] = nodes(GpuNode())
    asked = ("doctor", node, "--output=json", f"--kubeconfig={control_plane.kubeconfig}")
    where = f"a labelled pod in namespace {namespace}"

    def tried(*arguments):
        line = json.loads(run(*asked, f"--try-namespace={namespace}", *arguments).stdout)[-1]
        return line["check"], line["level"], line["what"]

    assert tried() == ("trial", "warning", f"{where} is created unchanged, without a share")
    assert tried("--no-trial")[0] != "trial"
    webhook()
    check, level, what = tried()
    assert (check, level, what.rpartition(" ")[0]) == ("trial", "ok", f"{where} is injected by policy")

    # A foreign CA: API servers no longer trust the webhook, and its answer is not read.
    trust(control_plane.api, make_authority(datetime.now(UTC)).certificate_pem)
    what = eventually(
        lambda: (found := tried())[1] == "failed" and found[2], "the API server uses the new CA"
    )
    assert what.startswith(f"{where} cannot be created: the API server answered 500: ")
    assert "failed calling webhook" in what
    assert "x509" in what
    assert control_plane.api.list("Pod", namespace) == []


@pytest.fixture
def test_hooks(control_plane, own_namespace, tmp_path):
    """The objects that Helm creates for a test, and nothing of the release."""
    helm = Helm(control_plane, tmp_path)
    rendered = helm.run("template", RELEASE, str(CHART), f"--namespace={OWN_NAMESPACE}", helm.values({}))
    hooks = [
        each
        for each in objects_of(rendered.stdout)
        if (each["metadata"].get("annotations") or {}).get("helm.sh/hook") == "test"
    ]
    yield {each["kind"]: each for each in hooks}
    for each in hooks:
        control_plane.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=json.dumps(each))


def test_the_account_of_the_test_may_do_all_that_the_doctor_asks(control_plane, test_hooks, tmp_path):
    pod = test_hooks.pop("Pod")
    assert set(test_hooks) == {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    for each in test_hooks.values():
        assert control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(each)).code == 0
    created = control_plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))
    assert created.code == 0, created.stderr
    kubeconfig = kubeconfig_of(control_plane, f"{RELEASE}-test", tmp_path / "kubeconfig")
    [container] = pod["spec"]["containers"]

    def lacking():
        ended = run(*container["args"], "-o", "json", f"--kubeconfig={kubeconfig}")
        return [line["what"] for line in json.loads(ended.stdout) if "right" in line["what"]]

    # The API server takes up new rights a moment later.
    eventually(lambda: not lacking(), "the account has all rights that the doctor asks for")
