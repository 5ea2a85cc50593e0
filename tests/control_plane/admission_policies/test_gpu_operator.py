"""The pods that NVIDIA's GPU operator itself creates (tests/fixtures/gpu-operator) and the second lock."""

from pathlib import Path

import pytest
import yaml

from tests.control_plane.admission_policies.support import is_allowed, refused
from tests.control_plane.admission_policies.test_creations import NEEDS_LABEL

FOLDER = Path(__file__).parents[2] / "fixtures" / "gpu-operator"
PODS = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(FOLDER.glob("*.yaml"))}
NAMESPACES = ("gpu-operator", "nvidia-gpu-operator")
"""The operator's on most clusters and on OpenShift, which the chart's own values know."""


def accounts(control_plane, namespace):
    """Make what the API server itself asks of the pods."""
    for name in sorted({pod["spec"]["serviceAccountName"] for pod in PODS.values()}):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        control_plane.api.create(account, namespace)


@pytest.fixture(scope="module")
def operator(lock, control_plane):
    """The operator's namespaces, service accounts and runtime class."""
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    control_plane.api.create(runtime_class)
    for name in NAMESPACES:
        control_plane.create_namespace(name)
        accounts(control_plane, name)
    yield control_plane.api
    for name in NAMESPACES:
        control_plane.api.delete("Namespace", name)
    control_plane.api.delete("RuntimeClass", "nvidia", api="node.k8s.io/v1")


@pytest.mark.parametrize("namespace_of_operator", NAMESPACES)
@pytest.mark.parametrize("name", PODS)
def test_the_operators_own_pods_pass_the_lock_as_the_chart_has_it(operator, name, namespace_of_operator):
    made = operator.create(PODS[name], namespace_of_operator, dry_run=True)
    assert made["metadata"]["labels"] == PODS[name]["metadata"]["labels"]
    assert made["spec"]["containers"][0]["image"] == PODS[name]["spec"]["containers"][0]["image"]


def test_elsewhere_the_lock_refuses_exactly_those_that_take_gpus(operator, control_plane, namespace):
    accounts(control_plane, namespace)
    denied = {name for name, pod in PODS.items() if not is_allowed(operator, pod, namespace)}
    assert denied == {name for name, pod in PODS.items() if "annotations" in pod["metadata"]} | {
        "device-plugin-validator"
    }
    with refused("unlabelled", NEEDS_LABEL):
        operator.create(PODS["device-plugin-validator"], namespace, dry_run=True)
