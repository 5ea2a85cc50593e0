"""What the tests of the controller's token share: its policy, its refusals, and what is written."""

from controller.geometry.node_view import change_text
from kube.names import AGENT_TAINT, INJECTED_ANNOTATION, MIG_CHANGE_ANNOTATION, PARTITIONING_LABELS
from testbed.api import ApiError
from testbed.chart import ADMISSION, RELEASE
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.test_mig_geometry import CONFIG_MAP

POLICY = f"{RELEASE}-controller-writes"
USE = f"{RELEASE}-use"
DYNAMIC = {"enabled": True, "namespace": OWN_NAMESPACE, "configMap": CONFIG_MAP, "configDelaySeconds": 1}
VALUES = {
    "agent": {
        "enabled": True,
        "podMetrics": True,
        "offer": "dra" if HAS_RESOURCE_CLAIMS else "device-plugin",
    },
    "mig": {"dynamic": DYNAMIC},
    "policies": {
        "default": {"resources": {"mode": "per-gpu"}, "quotas": {"whenOverQuota": "wait"}},
        **({"claimed": {"resources": {"mode": "dra"}}} if HAS_RESOURCE_CLAIMS else {}),
    },
}
CONFIGURATIONS = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{RELEASE}"
OURS = {"key": AGENT_TAINT, "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
BEFORE, AFTER = "all-disabled", "fraction-injector-0123456789abcdef-a"
DIVIDED_AT = "2026-01-01T00:00:00Z"
CHANGE = change_text(BEFORE, AFTER)
PARTITIONED = {PARTITIONING_LABELS[0]: "mig"}


def why_refused(api, method, path, body=None, content="application/json"):
    """Status and text of a refusal; nothing is changed where it is none."""
    try:
        api.call(method, path, body, {"dryRun": "All"}, content)
    except ApiError as error:
        return error.code, str(error)
    return 200, ""


def assert_policy_refuses(api, method, path, body=None, content="application/json"):
    """Only the policy refuses: what RBAC or validation refuses as well would prove nothing of it."""
    code, text = why_refused(api, method, path, body, content)
    assert (code, f"ValidatingAdmissionPolicy '{POLICY}'" in text) == (403, True), (code, text)
    assert len(text.partition("denied request: ")[2]) <= 200, text


def lease(name):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


def labels(**changed):
    return {"metadata": {"labels": changed}}


def annotated(key, value):
    return {"metadata": {"annotations": {key: value}}}


def taints(*wanted):
    return {"spec": {"taints": list(wanted)}}


def change_of(change, *, cordoned):
    return {**annotated(MIG_CHANGE_ANNOTATION, change), "spec": {"unschedulable": cordoned}}


def pod(name, *, annotations=None, **spec):
    metadata = {"name": name, "annotations": annotations or {}}
    spec = {"containers": [{"name": "task", "image": "example.com/task:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


INJECTED = {INJECTED_ANNOTATION: "default@0123456789ab"}
NOWHERE = {"nodeSelector": {"no": "node"}}
