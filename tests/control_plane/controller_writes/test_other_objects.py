"""Of all but nodes the controller's token changes what the controller changes, and nothing else."""

import pytest

from cluster.kube_client import JSON_PATCH
from kube.dra import TEMPLATE_LABEL
from kube.names import QUOTA_GATE
from testbed.api import MERGE_PATCH
from testbed.chart import ADMISSION
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.controller_writes.support import (
    CONFIGURATIONS,
    INJECTED,
    POLICY,
    USE,
    annotated,
    assert_policy_refuses,
    config_map,
    labels,
    lease,
    pod,
    why_refused,
)
from tests.control_plane.test_chart_rbac import CONTROLLER
from tests.control_plane.test_mig_geometry import CONFIG_MAP

FIRST = "/webhooks/0"


def replaced(path, value):
    return {"op": "replace", "path": f"{FIRST}/{path}", "value": value}


ALL = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}
MORE = {"name": "mine.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
MORE["clientConfig"] = {"url": "https://example.com/mutate"}
ON_WEBHOOK = [
    [
        {"op": "remove", "path": f"{FIRST}/clientConfig/service"},
        {"op": "add", "path": f"{FIRST}/clientConfig/url", "value": "https://example.com/mutate"},
    ],
    [replaced("clientConfig/service/namespace", "mine")],
    [replaced("clientConfig/service/path", "/")],
    [replaced("rules/0/resources", ["*/*"])],
    [{"op": "add", "path": f"{FIRST}/rules/-", "value": ALL}],
    [replaced("failurePolicy", "Ignore")],
    [replaced("namespaceSelector", {})],
    [replaced("objectSelector", {"matchLabels": {"no": "pod"}})],
    [{"op": "remove", "path": f"{FIRST}/matchConditions"}],
    [replaced("timeoutSeconds", 30)],
    [replaced("name", "another.clearml-injector.io")],
    [{"op": "add", "path": "/webhooks/-", "value": MORE}],
    [{"op": "remove", "path": FIRST}],
    [{"op": "add", "path": "/metadata/labels/mine", "value": "yes"}],
    [{"op": "add", "path": "/metadata/annotations/mine", "value": "yes"}],
    [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]}],
]


def test_of_the_webhooks_configuration_nothing_else_is_changed(control_plane, stolen):
    for patch in ON_WEBHOOK:
        assert_policy_refuses(stolen, "PATCH", CONFIGURATIONS, patch, JSON_PATCH)
        assert why_refused(control_plane.api, "PATCH", CONFIGURATIONS, patch, JSON_PATCH) == (200, "")


ON_STATUS = [
    # An address, to which a Service then leads.
    {"status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}},
    {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    {"status": {"phase": "Failed"}},
    labels(app="mine"),
    annotated("note", "mine"),
]


def test_of_its_own_pods_only_the_annotation_is_changed(stolen, own_pod):
    for change in ON_STATUS:
        assert_policy_refuses(stolen, "PATCH", f"{own_pod}/status", change, MERGE_PATCH)


def test_leases_and_config_maps_of_other_names_are_not_created(control_plane, stolen):
    # Controllers of other tests that share this API server leave theirs.
    control_plane.api.delete("Lease", CONTROLLER, OWN_NAMESPACE, "coordination.k8s.io/v1")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases"
    assert_policy_refuses(stolen, "POST", leases, lease("mine"))
    generated = {**lease(""), "metadata": {"generateName": CONTROLLER}}
    assert_policy_refuses(stolen, "POST", leases, generated)
    assert why_refused(stolen, "POST", leases, lease(CONTROLLER)) == (200, "")
    maps = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps"
    assert_policy_refuses(stolen, "POST", maps, config_map("mine"))
    assert f"writes only {CONFIG_MAP} and {USE}: " in why_refused(stolen, "POST", maps, config_map("mine"))[1]
    assert why_refused(stolen, "POST", maps, config_map(CONFIG_MAP)) == (200, "")


ON_CONFIG_MAP = [
    {"data": {"hooks.yaml": "hooks: {}"}},
    {"data": {"theirs.yaml": None}},
    {"binaryData": {"hook": "AAAA"}},
    labels(mine="yes"),
]
OF_ITS_OWN = {
    CONFIG_MAP: {"data": {"config.yaml": "version: v1\nmig-configs: {}"}},
    USE: {"data": {"history.json": "{}", "warnings.json": "{}"}},
}


@pytest.mark.parametrize("name", OF_ITS_OWN)
def test_of_its_config_maps_only_its_own_files_are_written(control_plane, stolen, name):
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/{name}"
    if name == CONFIG_MAP:
        control_plane.api.create({**config_map(name), "data": {"config.yaml": "version: v1"}}, OWN_NAMESPACE)
    try:
        control_plane.api.patch("ConfigMap", name, {"data": {"theirs.yaml": "1"}}, OWN_NAMESPACE)
        assert why_refused(stolen, "PATCH", path, OF_ITS_OWN[name], MERGE_PATCH) == (200, "")
        for change in ON_CONFIG_MAP:
            assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
    finally:
        if name == CONFIG_MAP:
            control_plane.api.delete("ConfigMap", name, OWN_NAMESPACE)


def test_the_api_server_finds_no_type_error_in_it(control_plane, stolen):
    def status():
        return control_plane.api.get("ValidatingAdmissionPolicy", POLICY, api=ADMISSION).get("status")

    assert eventually(status, "it is checked")["typeChecking"] == {}


DRA = "resource.k8s.io/v1"


def template(name="gpu-fraction-4of8-0123456789abcdef", labels=None):
    found = {TEMPLATE_LABEL: "share"} if labels is None else labels
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "labels": found},
        "spec": {"spec": {"devices": {"requests": []}}},
    }


@pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason="ResourceClaims are stable since 1.34")
def test_of_claim_templates_only_those_of_shares_are_made_and_deleted(control_plane, stolen, namespace):
    path = f"/apis/{DRA}/namespaces/{namespace}/resourceclaimtemplates"
    for each in (template("mine"), template(labels={})):
        assert_policy_refuses(stolen, "POST", path, each)
    assert why_refused(stolen, "POST", path, template()) == (200, "")
    control_plane.api.create(template("mine", {}), namespace)
    assert_policy_refuses(stolen, "DELETE", f"{path}/mine")
    control_plane.api.delete("ResourceClaimTemplate", "mine", namespace, DRA)


OURS, OTHERS = {"name": QUOTA_GATE}, {"name": "example.com/wait"}
FREE = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
WRONG = [
    [{"op": "remove", "path": "/spec/schedulingGates/0"}],
    [{"op": "remove", "path": "/spec/schedulingGates"}],
    [*FREE, {"op": "add", "path": "/metadata/labels", "value": {"mine": "yes"}}],
    [*FREE, {"op": "add", "path": "/metadata/annotations/mine", "value": "yes"}],
    [*FREE, {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]}],
    [*FREE, {"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/other:1"}],
    [{"op": "add", "path": "/spec/nodeSelector", "value": {"pool": "mine"}}],
]


@pytest.fixture
def gated(control_plane, namespace):
    """Make an injected pod with a gate of somebody else and ours; return its path."""

    def one(annotations):
        made = pod("task", annotations=annotations, schedulingGates=[OTHERS, OURS])
        control_plane.api.create(made, namespace)
        return f"/api/v1/namespaces/{namespace}/pods/task"

    return one


def test_our_gate_is_removed_and_nothing_else_is_changed(control_plane, stolen, gated):
    path = gated(INJECTED)
    assert why_refused(stolen, "PATCH", path, FREE, JSON_PATCH) == (200, "")
    for patch in WRONG:
        assert_policy_refuses(stolen, "PATCH", path, patch, JSON_PATCH)
        assert why_refused(control_plane.api, "PATCH", path, patch, JSON_PATCH) == (200, "")


def test_pods_that_were_not_injected_keep_every_gate(stolen, gated):
    assert_policy_refuses(stolen, "PATCH", gated({}), FREE, JSON_PATCH)
