"""The chart with all that gives its controller rights, and a client that has nothing but its token."""

from pathlib import Path

import pytest

from cluster.kube_client import JSON_PATCH
from testbed.api import Api
from testbed.chart import RELEASE, Helm
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.controller_writes.support import (
    NOWHERE,
    PARTITIONED,
    POLICY,
    VALUES,
    lease,
    pod,
    why_refused,
)
from tests.control_plane.test_chart_rbac import CONTROLLER, token_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.oldest_kubernetes)  # CEL grows with each release


@pytest.fixture(scope="package")
def helm(control_plane, tmp_path_factory):
    """The chart with all that gives its controller rights, once its policy is in effect."""
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)
    helm = Helm(control_plane, tmp_path_factory.mktemp("helm"))
    helm.apply(VALUES)
    yield helm
    helm.uninstall()


@pytest.fixture(scope="package")
def token(control_plane, helm):
    return token_of(control_plane, CONTROLLER)


@pytest.fixture(scope="package")
def stolen(control_plane, token):
    """A client that has nothing but the controller's token, once the policy holds it."""
    with Api(control_plane.url, str(control_plane.home.ca_file), token) as api:
        none = f"/api/v1/namespaces/{OWN_NAMESPACE}/pods/none"
        gone = "the account has its rights"
        eventually(lambda: why_refused(api, "PATCH", none, [], JSON_PATCH)[0] == 404, gone)
        path, body = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases", lease("in-effect")
        eventually(lambda: POLICY in why_refused(api, "POST", path, body)[1], "the policy is in effect")
        yield api


@pytest.fixture
def make_node(control_plane, namespace):
    made = []

    def one(*, labels=PARTITIONED, annotations=None, **spec):
        name = f"{namespace}-node-{len(made)}"
        metadata = {"name": name, "labels": {"pool": "gpu", **labels}, "annotations": {"note": "1"}}
        metadata["annotations"] |= annotations or {}
        control_plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        made.append(name)
        return f"/api/v1/nodes/{name}"

    yield one
    for name in made:
        control_plane.api.delete("Node", name)


@pytest.fixture
def own_pod(control_plane, stolen):
    """A pod in the controller's namespace that mounts the certificate and the policies."""
    volumes = [
        {"name": "tls", "secret": {"secretName": f"{RELEASE}-tls"}},
        {"name": "policies", "configMap": {"name": f"{RELEASE}-policies"}},
    ]
    control_plane.api.create(pod("touched", volumes=volumes, **NOWHERE), OWN_NAMESPACE)
    yield f"/api/v1/namespaces/{OWN_NAMESPACE}/pods/touched"
    control_plane.api.delete("Pod", "touched", OWN_NAMESPACE)
