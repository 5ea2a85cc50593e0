"""`fraction-injector doctor` on a real API server, with the chart installed: green, then broken in parts."""

import base64
import json
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from testbed import components
from testbed.api import MERGE_PATCH
from testbed.chart import ADMISSION, CONFIGURATION, RELEASE
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.cli.running import run
from tests.control_plane.agent_reports import report

OF_CLUSTER = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
    {"apiGroups": ["clearml-injector.io"], "resources": ["gpunodes", "gpuledgers"], "verbs": ["list"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        "verbs": ["list"],
    },
]
OF_RELEASE = [
    {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods", "events", "serviceaccounts"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
]
"""What docs/reference/terminal.md names, without pods/proxy: no pod of KWOK answers."""
KIND = "rbac.authorization.k8s.io"
BINDING, BINDINGS = "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
NOT_ASKED = [
    f"{check}: you lack the right to get pods/proxy in namespace {OWN_NAMESPACE}"
    for check in ("slices", "policies", "served-certificates")
]
NOT_TRIED = "trial: you lack the right to create pods in namespace default"


def grant(api, name, rules, namespace=""):
    kinds = ("Role", "RoleBinding") if namespace else ("ClusterRole", "ClusterRoleBinding")
    role, binding = kinds
    group = f"/apis/{KIND}/v1" + (f"/namespaces/{namespace}" if namespace else "")
    head = {"apiVersion": f"{KIND}/v1", "metadata": {"name": name}}
    api.call("POST", f"{group}/{role.lower()}s", {**head, "kind": role, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": OWN_NAMESPACE}]
    ref = {"apiGroup": KIND, "kind": role, "name": name}
    api.call(
        "POST", f"{group}/{binding.lower()}s", {**head, "kind": binding, "roleRef": ref, "subjects": subjects}
    )
    return [f"{group}/{role.lower()}s/{name}", f"{group}/{binding.lower()}s/{name}"]


@pytest.fixture
def doctor(control_plane, own_namespace, namespace, tmp_path):
    """Run the command with the rights that the docs name; returns its lines by check, and how it ended."""
    api, name = control_plane.api, f"doctor-{namespace}"
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, own_namespace)
    made = [*grant(api, name, OF_CLUSTER), *grant(api, name, OF_RELEASE, own_namespace)]
    token = control_plane.kubectl(f"--namespace={own_namespace}", "create", "token", name).stdout.strip()
    components.write_kubeconfig(control_plane.home, control_plane.url, tmp_path / name, token)

    def ask(*arguments):
        ended = run("doctor", "--output=json", *arguments, f"--kubeconfig={tmp_path / name}")
        assert ended.stdout, ended.stderr
        found = {}
        for line in json.loads(ended.stdout):
            found.setdefault(line["check"], []).append(line)
        return found, ended.returncode

    yield ask
    for path in made:
        api.call("DELETE", path)
    api.delete("ServiceAccount", name, own_namespace)


@pytest.fixture
def node(nodes):
    [name] = nodes(GpuNode())
    return name


@pytest.fixture
def installed(control_plane, helm, no_release_left, node, tmp_path):
    """The chart, and what its controller, kubelets and agents would make of it."""
    api = control_plane.api
    helm.apply({"agent": {"enabled": True, "offer": "device-plugin"}})
    install_crd(api)
    made = make_authority(datetime.now(UTC))
    tls = write_tls(tmp_path / "tls", made)
    files = {file.name: file.read_bytes() for file in tls.iterdir()}
    secret(api, "tls", files)
    secret(api, "ca", {"ca.crt": made.certificate_pem, "ca.key": made.key_pem})
    bundle(api, made.certificate_pem)
    endpoint = {"addresses": ["10.1.2.3"], "conditions": {"ready": True}}
    api.call("POST", slices(), endpoint_slice(endpoint))
    more = (*SHORT_LEASE, f"--namespace={OWN_NAMESPACE}")
    with Controller(
        control_plane.kubeconfig, tmp_path, tls, f"{RELEASE}-controller", more=more
    ) as controller:
        controller.until_leading()
        report(control_plane, node, gpus=[card()])
        yield tls
    api.call("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases/{RELEASE}-controller")


def secret(api, suffix, files):
    """Fill one of the chart's Secrets, as its controller does."""
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    api.patch("Secret", f"{RELEASE}-{suffix}", {"data": data}, OWN_NAMESPACE)


def bundle(api, pem, name=RELEASE):
    patch = [
        {
            "op": "add",
            "path": "/webhooks/0/clientConfig/caBundle",
            "value": base64.b64encode(pem).decode(),
        }
    ]
    path = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{name}"
    api.call("PATCH", path, patch, content="application/json-patch+json")


def slices(name=""):
    return f"/apis/discovery.k8s.io/v1/namespaces/{OWN_NAMESPACE}/endpointslices" + (
        f"/{name}" if name else ""
    )


def endpoint_slice(*endpoints):
    labels = {"kubernetes.io/service-name": f"{RELEASE}-webhook"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "doctor", "labels": labels},
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "https", "port": 8443}],
    }


def card():
    return {
        "index": 0,
        "uuid": "GPU-0",
        "model": "NVIDIA A100",
        "memoryMiB": 81920,
        "healthy": True,
        "mig": False,
    }


def finding(found, check):
    [line] = found[check]
    return line["level"], line["what"]


def green(found):
    """Whether nothing is left to say but that pods cannot be asked, nor created."""
    levels = {line["level"] for lines in found.values() for line in lines}
    return levels == {"ok", "skipped"}


def test_an_installation_is_green_and_what_breaks_is_named_by_its_line(
    installed, doctor, control_plane, node
):
    api = control_plane.api

    def healthy():
        found, status = doctor(node)
        return found if green(found) and status == 0 else None

    found = eventually(healthy, "every check is green")
    skipped = [line["what"] for lines in found.values() for line in lines if line["level"] == "skipped"]
    assert skipped == ["no agent looks for programs that run without their limiter", *NOT_ASKED, NOT_TRIED]

    # A webhook that nobody can reach or trust.
    api.call("PUT", slices("doctor"), endpoint_slice())
    bundle(api, b"nonsense that Helm or somebody left")
    # A node without the label of its memory, whose agent is stuck.
    label = {"metadata": {"labels": {"nvidia.com/gpu.memory": None}}}
    api.call("PATCH", f"/api/v1/nodes/{node}", label, content=MERGE_PATCH)
    off = "CDI is off in containerd://1.7.27: set enable_cdi = true in containerd's configuration"
    report(control_plane, node, registered=False, missing=f"nvidia.com/gpu-0: {off}", gpus=[card()])
    # A second lock that is open.
    gone = f"{RELEASE}-injected"
    api.delete(BINDING, gone, api=ADMISSION)
    api.delete(BINDING, f"{gone}-by-memory", api=ADMISSION)
    api.delete("ServiceAccount", f"{RELEASE}-second-lock", OWN_NAMESPACE)

    found, status = doctor(node)
    assert status == 1
    assert finding(found, "endpoints") == ("failed", f"Service {RELEASE}-webhook has no ready endpoint")
    level, what = finding(found, "webhook")
    assert (level, what.startswith("caBundle: holds no certificate")) == ("failed", True)
    what = "the node label nvidia.com/gpu.memory is missing or not a number of MiB"
    assert finding(found, "fractions") == ("failed", what)
    assert finding(found, "serving") == ("failed", f"the agent is not registered: {off} (nvidia.com/gpu-0)")
    assert found["serving"][0]["advice"].startswith("set enable_cdi = true")
    account = f"{OWN_NAMESPACE}/{RELEASE}-second-lock"
    assert [line["what"] for line in found["bindings"]] == [
        f"ValidatingAdmissionPolicy {gone} has no binding",
        f"ServiceAccount {account} is missing: without it the second lock is open",
    ]

    api.delete(CONFIGURATION, RELEASE, api=ADMISSION)
    found, _ = doctor(node)
    assert finding(found, "webhook") == (
        "failed",
        f"MutatingWebhookConfiguration {RELEASE} is missing or empty",
    )


def test_a_pod_is_tried_in_a_dry_run(control_plane, namespace, node, webhook):
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
    bundle(control_plane.api, make_authority(datetime.now(UTC)).certificate_pem, "fractions")
    what = eventually(
        lambda: (found := tried())[1] == "failed" and found[2], "the API server uses the new CA"
    )
    assert what.startswith(f"{where} cannot be created: the API server answered 500: ")
    assert "failed calling webhook" in what
    assert "x509" in what
    assert control_plane.api.list("Pod", namespace) == []
