"""Of all but nodes the controller's token changes what the controller changes, and nothing else."""

import pytest

from cluster.kube_client import JSON_PATCH
from kube.dra import TEMPLATE_LABEL
from testbed.api import MERGE_PATCH
from testbed.chart import ADMISSION
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.controller_writes.support import (
    CONFIGURATIONS,
    POLICY,
    USE,
    annotated,
    assert_policy_refuses,
    config_map,
    labels,
    lease,
    why_refused,
)
from tests.control_plane.test_chart_rbac import CONTROLLER
from tests.control_plane.test_mig_geometry import CONFIG_MAP

FIRST = "/webhooks/0"
ON_WEBHOOK = {
    "its address": [
        {"op": "remove", "path": f"{FIRST}/clientConfig/service"},
        {"op": "add", "path": f"{FIRST}/clientConfig/url", "value": "https://example.com/mutate"},
    ],
    "its Service": [{"op": "replace", "path": f"{FIRST}/clientConfig/service/namespace", "value": "mine"}],
    "its path": [{"op": "replace", "path": f"{FIRST}/clientConfig/service/path", "value": "/"}],
    "its rules": [{"op": "replace", "path": f"{FIRST}/rules/0/resources", "value": ["*/*"]}],
    "more rules": [
        {
            "op": "add",
            "path": f"{FIRST}/rules/-",
            "value": {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["*"],
                "resources": ["secrets"],
            },
        }
    ],
    "its failure policy": [{"op": "replace", "path": f"{FIRST}/failurePolicy", "value": "Ignore"}],
    "its namespaces": [{"op": "replace", "path": f"{FIRST}/namespaceSelector", "value": {}}],
    "its objects": [
        {"op": "replace", "path": f"{FIRST}/objectSelector", "value": {"matchLabels": {"no": "pod"}}}
    ],
    "its conditions": [{"op": "remove", "path": f"{FIRST}/matchConditions"}],
    "its timeout": [{"op": "replace", "path": f"{FIRST}/timeoutSeconds", "value": 30}],
    "its name": [{"op": "replace", "path": f"{FIRST}/name", "value": "another.clearml-injector.io"}],
    "one more": [
        {
            "op": "add",
            "path": "/webhooks/-",
            "value": {
                "name": "mine.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"url": "https://example.com/mutate"},
            },
        }
    ],
    "none": [{"op": "remove", "path": FIRST}],
    "a label": [{"op": "add", "path": "/metadata/labels/mine", "value": "yes"}],
    "an annotation": [{"op": "add", "path": "/metadata/annotations/mine", "value": "yes"}],
    "a finalizer": [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]}],
}


@pytest.mark.parametrize("patch", ON_WEBHOOK.values(), ids=ON_WEBHOOK)
def test_of_the_webhooks_configuration_nothing_else_is_changed(control_plane, stolen, patch):
    assert_policy_refuses(stolen, "PATCH", CONFIGURATIONS, patch, JSON_PATCH)
    assert why_refused(control_plane.api, "PATCH", CONFIGURATIONS, patch, JSON_PATCH) == (200, "")


ON_STATUS = {
    "an address, to which a Service then leads": {
        "status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}
    },
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "a phase": {"status": {"phase": "Failed"}},
    "a label": labels(app="mine"),
    "another annotation": annotated("note", "mine"),
}


@pytest.mark.parametrize("change", ON_STATUS.values(), ids=ON_STATUS)
def test_of_its_own_pods_only_the_annotation_is_changed(stolen, own_pod, change):
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


ON_CONFIG_MAP = {
    "another file": {"data": {"hooks.yaml": "hooks: {}"}},
    "another's file": {"data": {"theirs.yaml": None}},
    "bytes": {"binaryData": {"hook": "AAAA"}},
    "a label": labels(mine="yes"),
}


@pytest.mark.parametrize("change", ON_CONFIG_MAP.values(), ids=ON_CONFIG_MAP)
def test_of_the_mig_managers_config_map_only_the_configurations_are_written(control_plane, stolen, change):
    made = {**config_map(CONFIG_MAP), "data": {"config.yaml": "version: v1", "theirs.yaml": "1"}}
    control_plane.api.create(made, OWN_NAMESPACE)
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/{CONFIG_MAP}"
    try:
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
        theirs = {"data": {"config.yaml": "version: v1\nmig-configs: {}"}}
        assert why_refused(stolen, "PATCH", path, theirs, MERGE_PATCH) == (200, "")
    finally:
        control_plane.api.delete("ConfigMap", CONFIG_MAP, OWN_NAMESPACE)


@pytest.mark.parametrize("change", ON_CONFIG_MAP.values(), ids=ON_CONFIG_MAP)
def test_of_what_pods_used_only_the_history_and_the_warnings_are_written(control_plane, stolen, change):
    control_plane.api.patch("ConfigMap", USE, {"data": {"theirs.yaml": "1"}}, OWN_NAMESPACE)
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/{USE}"
    written = {"data": {"history.json": "{}", "warnings.json": "{}"}}
    assert why_refused(stolen, "PATCH", path, written, MERGE_PATCH) == (200, "")
    assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
    text = why_refused(stolen, "PATCH", path, {"data": {"config.yaml": "1"}}, MERGE_PATCH)[1]
    assert f"of {USE} the controller changes only history.json and warnings.json: " in text


def test_the_api_server_finds_no_type_error_in_it(control_plane, stolen):
    def status():
        return control_plane.api.get("ValidatingAdmissionPolicy", POLICY, api=ADMISSION).get("status")

    assert eventually(status, "it is checked")["typeChecking"] == {}


DRA = "resource.k8s.io/v1"
TEMPLATES = {
    "a name that is none of ours": {"name": "mine"},
    "no label": {"labels": {}},
}


def template(name="gpu-fraction-4of8-0123456789abcdef", labels=None):
    found = {TEMPLATE_LABEL: "share"} if labels is None else labels
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "labels": found},
        "spec": {"spec": {"devices": {"requests": []}}},
    }


@pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason="ResourceClaims are stable since 1.34")
@pytest.mark.parametrize("each", TEMPLATES.values(), ids=TEMPLATES)
def test_of_claim_templates_only_those_of_shares_are_made_and_deleted(control_plane, stolen, namespace, each):
    path = f"/apis/{DRA}/namespaces/{namespace}/resourceclaimtemplates"
    assert_policy_refuses(stolen, "POST", path, template(**each))
    assert why_refused(stolen, "POST", path, template()) == (200, "")
    control_plane.api.create(template("mine", {}), namespace)
    assert_policy_refuses(stolen, "DELETE", f"{path}/mine")
    control_plane.api.delete("ResourceClaimTemplate", "mine", namespace, DRA)
