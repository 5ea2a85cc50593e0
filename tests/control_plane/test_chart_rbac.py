"""What the chart lets its two service accounts do: all that the code does, and nothing else."""

import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from certs.leaf import make_leaf, service_names
from certs.mounted import read_tls_files
from certs.validation import validate_files
from cluster.kube_client import ApiError
from kube.names import CERTIFICATE_ANNOTATION
from testbed import plain_http
from testbed.api import Api
from testbed.certificate_files import mount_like_kubelet
from testbed.chart import ADMISSION, RELEASE, Helm
from testbed.controller_process import SHORT_LEASE, gpu_ledger
from testbed.gpu_nodes import GpuNode
from testbed.mounts import SecretMounts
from testbed.process import Process, eventually, start_on_free_ports
from testbed.product import COMMAND, GRACE_S, POLICIES, READY_S
from testbed.registration import OWN_NAMESPACE

FAST = ("--ca-settle=1", "--ca-retry=0.5", *SHORT_LEASE)
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
REFUSED = str(ApiError(403, "")).strip()
"""How the controller's log speaks of a right that it lacks."""
CONTROLLER, WEBHOOK = f"{RELEASE}-controller", f"{RELEASE}-webhook"
SECRETS, CONFIG_MAPS = ("", "secrets"), ("", "configmaps")
LEASES = ("coordination.k8s.io", "leases")
CONFIGURATIONS = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
EVERYWHERE = {
    ("clearml-injector.io", "gpunodes"): {"list", "watch"},
    ("clearml-injector.io", "gpuledgers"): {"list", "watch", "create", "patch", "delete"},
    ("clearml-injector.io", "gpuledgers/status"): {"patch"},
    ("", "nodes"): {"list", "watch"},
    ("", "pods"): {"list", "watch"},
    ("", "events"): {"create"},
}
AT_HOME = {
    LEASES: {"create"},
    ("discovery.k8s.io", "endpointslices"): {"list"},
    ("", "pods/status"): {"patch"},
}
NAMED = {
    (LEASES, CONTROLLER): {"get", "patch"},
    (SECRETS, f"{RELEASE}-ca"): {"get", "patch"},
    (SECRETS, f"{RELEASE}-tls"): {"get", "patch"},
    (CONFIG_MAPS, f"{RELEASE}-policies"): {"get"},
}
OF_WEBHOOK = {(CONFIGURATIONS, RELEASE): {"get", "patch"}}


def each_of(rules):
    """Rules of RBAC as (group and resource, name or "" for all, verb)."""
    return {
        ((group, resource), name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
        for verb in rule["verbs"]
    }


def rights(table):
    return {
        (*(key if isinstance(key[0], tuple) else (key, "")), verb) for key in table for verb in table[key]
    }


@pytest.fixture(scope="module")
def helm(control_plane, tmp_path_factory):
    """The chart, installed with its defaults."""
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)
    helm = Helm(control_plane, tmp_path_factory.mktemp("helm"))
    helm.apply({})
    yield helm
    helm.uninstall()


def granted(control_plane, account, namespace):
    """What a service account of the chart may and others may not."""

    def rules(name):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
        review["spec"] = {"namespace": namespace}
        with Api(control_plane.url, str(control_plane.home.ca_file), token_of(control_plane, name)) as api:
            status = api.call("POST", RULES, review)["status"]
        assert not status["incomplete"]
        return each_of(status["resourceRules"])

    return rules(account) - rules("default")


def test_the_controller_may_do_this_and_nothing_else(control_plane, helm):
    everywhere = rights(EVERYWHERE | OF_WEBHOOK)
    assert granted(control_plane, CONTROLLER, "kube-system") == everywhere
    assert granted(control_plane, CONTROLLER, OWN_NAMESPACE) == everywhere | rights(NAMED | AT_HOME)


@pytest.mark.parametrize("namespace", ["kube-system", OWN_NAMESPACE])
def test_the_webhook_may_do_what_everyone_may(control_plane, helm, namespace):
    assert granted(control_plane, WEBHOOK, namespace) == set()


MEASURING = {"agent": {"enabled": True, "offer": "device-plugin", "podMetrics": True}}
IDLE = {"idleAfter": "1h"}
MORE = {
    "patches pods that wait for a quota": (
        {"queues": {"patient": {"whenOverQuota": "wait"}}},
        {},
        {("", "pods"): {"patch"}},
    ),
    "evicts idle pods": (
        {**MEASURING, "policies": {"default": {**IDLE, "reclaimIdle": "evict"}}},
        {**MEASURING, "policies": {"default": IDLE}},
        {("", "pods/eviction"): {"create"}},
    ),
    "writes what pods used": (
        MEASURING,
        {"agent": {"enabled": True, "offer": "device-plugin"}},
        {(CONFIG_MAPS, f"{RELEASE}-use"): {"get", "patch"}},
    ),
}


@pytest.mark.parametrize(("values", "without", "more"), MORE.values(), ids=MORE)
def test_where_the_values_say_so_the_controller_also(helm, values, without, more):
    def rules(values):
        named = [each for each in helm.rendered(values) if each["metadata"]["name"] == CONTROLLER]
        return each_of([rule for each in named for rule in each.get("rules", ())])

    assert rules(values) - rules(without) == rights(more)


@pytest.mark.parametrize("mode", ["cert-manager", "existing-secret"])
def test_without_self_management_there_is_no_right_to_secrets(helm, mode):
    objects = helm.rendered({"tls": {"mode": mode, "existingSecret": "mine"}})
    resources = [
        rule["resources"] for each in objects if "Role" in each["kind"] for rule in each.get("rules", ())
    ]
    assert not [each for each in resources if "secrets" in each]
    assert (["mutatingwebhookconfigurations"] in resources) is (mode == "existing-secret")


def token_of(control_plane, account):
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return control_plane.api.call("POST", path, request)["status"]["token"]


def kubeconfig_of(control_plane, account, file):
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(control_plane, account)}
    file.write_text(json.dumps(config))
    return file


@pytest.fixture
def mounted(control_plane, helm, tmp_path):
    """The chart's Secret, empty at first, as the kubelet mounts it."""
    with SecretMounts(control_plane.api, f"{RELEASE}-tls", OWN_NAMESPACE, tmp_path / "tls"):
        yield tmp_path / "tls"


@contextmanager
def running(control_plane, helm, values, mounted, folder):
    """A controller process with the rights and options of the installed chart; its log, once it is ready."""
    kubeconfig = kubeconfig_of(control_plane, CONTROLLER, folder / "kubeconfig")
    deployments = {o["metadata"]["name"]: o for o in helm.rendered(values) if o["kind"] == "Deployment"}
    [container] = deployments[CONTROLLER]["spec"]["template"]["spec"]["containers"]
    here = ("--host", "--port", "--health-port", "--advertise", "--tls-dir", "--policies=")
    options = [option for option in container["args"] if not option.startswith(here)]
    own = folder / "policies"
    options += [f"--policies={own if own.exists() else POLICIES}"]
    options += [f"--kubeconfig={kubeconfig}", f"--tls-dir={mounted}", *FAST]

    def start(ports):
        own = [f"--port={ports[0]}", f"--health-port={ports[1]}", "--page-port=0", "--stop-delay=0"]
        return Process([COMMAND, *options, *own], folder / "controller.log", grace_s=GRACE_S)

    process, _ = start_on_free_ports(2, start, lambda ports: plain_http.is_ready(ports[1]), READY_S)
    with process:
        yield process.log


def refusals(log):
    """What the controller may not do, but for namespaces of other tests that end: nobody creates there."""
    lines = [line for line in log.read_text().splitlines() if REFUSED in line or "orbidden" in line]
    return [line for line in lines if "being terminated" not in line]


def injected_ca(api):
    [entry] = api.get("MutatingWebhookConfiguration", RELEASE, api=ADMISSION)["webhooks"]
    return base64.b64decode(entry["clientConfig"].get("caBundle", ""))


def test_the_real_controller_issues_and_publishes_with_its_rights(
    control_plane, helm, mounted, nodes, tmp_path
):
    api = control_plane.api
    names = [f"{name}.{OWN_NAMESPACE}.svc" for name in (CONTROLLER, WEBHOOK)]
    with running(control_plane, helm, {}, mounted, tmp_path) as log:
        served = read_tls_files(mounted)
        validate_files(served, names)
        assert injected_ca(api) == served.ca_pem
        eventually(lambda: touched(api), "every pod of the release is touched for this certificate")
        [node] = nodes(GpuNode(gpus=1))
        eventually(lambda: gpu_ledger(api, node), "the node's GpuLedger is written")
        api.delete("Node", node)
        eventually(lambda: not has_ledger(control_plane, node), "and goes with its node")
    assert refusals(log) == []


def test_a_deleted_ca_is_made_again_once_an_upgrade_has_made_its_secret(
    control_plane, helm, mounted, tmp_path
):
    api = control_plane.api
    with running(control_plane, helm, {}, mounted, tmp_path) as log:
        api.delete("Secret", f"{RELEASE}-ca", OWN_NAMESPACE)
        missing = "a Secret is missing, and the controller may not create any"
        eventually(lambda: missing in log.read_text(), "the log says what to do")
        assert injected_ca(api) == read_tls_files(mounted).ca_pem
        helm.apply({})
        eventually(
            lambda: "ca.crt" in api.get("Secret", f"{RELEASE}-ca", OWN_NAMESPACE).get("data", {}),
            "the controller fills the Secret that the upgrade made",
        )
        why = '"action":"StoreNewAuthority","why":"no CA is stored whose key could sign"'
        eventually(lambda: why in log.read_text(), "the log says why")


def test_the_real_controller_injects_the_ca_of_an_existing_secret(control_plane, helm, tmp_path):
    values = {"tls": {"mode": "existing-secret", "existingSecret": "mine"}}
    now = datetime.now(UTC)
    authority = make_authority(now)
    leaf = make_leaf(authority, service_names(CONTROLLER, OWN_NAMESPACE), now)
    content = {"ca.crt": authority.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
    mount_like_kubelet(tmp_path / "tls", "1", content)
    helm.apply(values)
    with running(control_plane, helm, values, tmp_path / "tls", tmp_path) as log:
        eventually(lambda: injected_ca(control_plane.api) == authority.certificate_pem, "the CA is injected")
    helm.apply({})
    assert refusals(log) == []


def touched(api):
    """Whether all pods of the release, but those that end, carry the mark of one certificate."""
    pods = api.list("Pod", OWN_NAMESPACE, labels=f"app.kubernetes.io/instance={RELEASE}")
    staying = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    marks = [metadata.get("annotations", {}).get(CERTIFICATE_ANNOTATION) for metadata in staying]
    return len(marks) == 4 and None not in marks and len(set(marks)) == 1


def has_ledger(control_plane, node):
    return control_plane.kubectl("get", "gpuledger", node).code == 0
