"""`helm test` runs `fraction-injector doctor --brief`: its account has every right that the command uses."""

import json

import pytest

from testbed.chart import CHART, RELEASE, Helm, objects_of
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.cli.running import run
from tests.control_plane.test_chart_rbac import kubeconfig_of

NAME = f"{RELEASE}-test"


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
    kubeconfig = kubeconfig_of(control_plane, NAME, tmp_path / "kubeconfig")
    [container] = pod["spec"]["containers"]

    def lacking():
        ended = run(*container["args"], "-o", "json", f"--kubeconfig={kubeconfig}")
        return [line["what"] for line in json.loads(ended.stdout) if "right" in line["what"]]

    # The API server takes up new rights a moment later.
    eventually(lambda: not lacking(), "the account has all rights that the doctor asks for")
