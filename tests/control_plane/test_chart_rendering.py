"""What the chart renders: accepted by a real API server, refused where the values are wrong."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from policies.loading.loader import load_policies
from testbed.api import ApiError
from testbed.chart import CHART, RELEASE, objects_of
from testbed.process import eventually
from testbed.product import COMMAND
from testbed.registration import OWN_NAMESPACE

CI = {file.name.removesuffix("-values.yaml"): file for file in sorted((CHART / "ci").iterdir())}
CLAIMED_AND_WAITING = {
    "claimed": {"resources": {"mode": "dra"}},
    "patient": {"quotas": {"whenOverQuota": "wait"}, "idleAfter": "1h", "reclaimIdle": "evict"},
}
OFFERING = {"enabled": True, "offer": "dra"}
"""An agent that mode dra needs."""
THREATS = Path(__file__).parents[2] / "docs" / "operating" / "threat-model.md"
CERT_MANAGER = "github.com/cert-manager/cert-manager@v1.19.1"


@pytest.fixture(scope="module")
def cert_manager(control_plane, tmp_path_factory):
    """cert-manager's CRDs, from its Go module."""
    empty = tmp_path_factory.mktemp("module")
    found = subprocess.run(
        ["go", "mod", "download", "-json", CERT_MANAGER], cwd=empty, capture_output=True, check=True
    )
    folder = f"{json.loads(found.stdout)['Dir']}/deploy/crds"
    kinds = ["issuers", "certificates"]
    files = [f"--filename={folder}/cert-manager.io_{kind}.yaml" for kind in kinds]
    names = [f"{kind}.cert-manager.io" for kind in kinds]
    applied = control_plane.kubectl("apply", "--server-side", *files)
    assert applied.code == 0, applied.stderr
    # kubectl fails where the API server has given a CRD no conditions yet.
    wait = ("wait", "--for=condition=Established", "crd", *names)
    eventually(lambda: control_plane.kubectl(*wait).code == 0, "cert-manager's CRDs are served")
    yield
    control_plane.kubectl("delete", "crd", *names)


@pytest.mark.parametrize("name", CI)
def test_the_api_server_accepts_every_object(helm, cert_manager, kubectl, namespace, name):
    # The test's pod is refused until its service account is there; test_doctor.py runs it.
    options = (f"--namespace={namespace}", f"--values={CI[name]}", "--skip-tests")
    rendered = helm.run("template", RELEASE, str(CHART), *options)
    assert (rendered.code, rendered.stderr) == (0, "")
    # Server-side, because the CRD may stand already, made by others.
    options = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    checked = kubectl("apply", *options, "--filename=-", stdin=rendered.stdout)
    assert (checked.code, checked.stderr) == (0, "")
    assert len(checked.stdout.splitlines()) == len(objects_of(rendered.stdout))


def test_a_preset_from_a_mirror_is_one_value_and_the_second_lock_stays_as_it_is(helm, tmp_path):
    image = "registry.example.com/hamicore:v2.10.0"
    values = {"limiters": {"hami-core": {"extends": "hami-core", "initContainer": {"image": image}}}}
    found, plain = helm.rendered(values), helm.rendered({})
    [policies] = [o for o in found if o["metadata"]["name"] == f"{RELEASE}-policies"]
    for file, content in policies["data"].items():
        (tmp_path / file).write_text(content)
    assert load_policies(tmp_path).resolve("default", None, None).limiter.init_container.image == image
    locks = [[o for o in each if o["kind"].startswith("ValidatingAdmission")] for each in (found, plain)]
    assert locks[0] == locks[1] != []


@pytest.mark.parametrize("mode", ["self-managed", "cert-manager"])
def test_no_ca_is_rendered_where_one_is_injected(helm, mode):
    [found] = of_kind(helm.rendered({"tls": {"mode": mode}}), "MutatingWebhookConfiguration")
    assert [set(entry["clientConfig"]) for entry in found["webhooks"]] == [{"service"}]


def test_the_pods_meet_pod_security_restricted(helm, control_plane):
    control_plane.create_namespace("strict", {"pod-security.kubernetes.io/enforce": "restricted"})
    for deployment in of_kind(helm.rendered({"priorityClass": {"create": False}}), "Deployment"):
        name = deployment["metadata"]["name"]
        spec = {**deployment["spec"]["template"]["spec"], "serviceAccountName": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        assert control_plane.api.create(pod, "strict", dry_run=True)["metadata"]["name"] == name
        del spec["containers"][0]["securityContext"]
        with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
            control_plane.api.create(pod, "strict", dry_run=True)
    control_plane.api.delete("Namespace", "strict")


@pytest.mark.parametrize("gpus", [1, 8])
def test_the_device_plugin_gets_what_gpu_operator_values_says(helm, gpus):
    values = {"devicePlugin": {"enabled": True, "gpus": [gpus]}}
    [found] = [o for o in helm.rendered(values) if o["metadata"]["name"] == f"{RELEASE}-device-plugin"]
    printed = subprocess.run(
        [COMMAND, "gpu-operator-values", f"--gpus={gpus}"], capture_output=True, text=True, check=True
    ).stdout
    wanted = yaml.safe_load(printed)["devicePlugin"]["config"]
    assert wanted["name"] == f"{RELEASE}-device-plugin"
    assert yaml.safe_load(found["data"][f"per-gpu-{gpus}"]) == yaml.safe_load(wanted["data"]["slices"])
    assert set(found["data"]) == {f"per-gpu-{gpus}", "pooled"}


def of_kind(objects, kind):
    return [obj for obj in objects if obj["kind"] == kind]


def test_a_label_that_values_give_twice_is_rendered_once_and_the_narrower_value_wins(helm):
    common, own = {"team": "all"}, {"team": "one"}
    part = {"podLabels": own, "service": {"labels": own}}
    monitoring = {
        each: {"enabled": True, "labels": own} for each in ("serviceMonitor", "prometheusRule", "dashboard")
    }
    values = {"commonLabels": common, "webhook": part, "controller": part, "monitoring": monitoring}
    objects = [obj for obj in yaml.load_all(helm.manifest(values), OnceLoader) if obj]
    narrowed = {"Service", "ServiceMonitor", "PrometheusRule", "ConfigMap"}
    labels = {(obj["kind"], obj["metadata"]["labels"]["team"]) for obj in objects}
    assert {kind for kind, team in labels if team == "one"} == narrowed
    assert ("ClusterRole", "all") in labels
    pods = [obj["spec"]["template"]["metadata"]["labels"] for obj in of_kind(objects, "Deployment")]
    assert [(pod["team"], pod["app.kubernetes.io/component"]) for pod in pods] == [
        ("one", "controller"),
        ("one", "webhook"),
    ]


class OnceLoader(yaml.CSafeLoader):
    """Reads YAML as kustomize and a strict API server do: a key may stand in a mapping once."""

    def construct_mapping(self, node, deep=False):  # noqa: FBT002 - as PyYAML calls it
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


def test_what_the_values_add_is_in_both_processes_and_in_the_release(helm):
    account, annotations = {"create": False, "name": "ours"}, {"admissions.enforcer/disabled": "true"}
    scratch = {"name": "scratch", "emptyDir": {}}
    part = {
        "extraArgs": ["--stop-delay=3"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [scratch],
        "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "probes": {"livenessProbe": {"failureThreshold": 9}},
        "strategy": {"type": "Recreate"},
        "serviceAccount": account,
    }
    name = {"name": "{{ .Release.Name }}-more"}
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"a": "1"}}
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Release.Namespace }}-more'}\n"
    values = {"webhook": {**part, "configurationAnnotations": annotations}, "controller": part}
    objects = helm.rendered({**values, "logging": {"level": "error"}, "extraObjects": [plain, text]})
    for found in of_kind(objects, "Deployment"):
        pod = found["spec"]["template"]["spec"]
        [container] = pod["containers"]
        probe = container["livenessProbe"]
        assert container["args"][-3:] == ["--log-level=error", "--log-format=json", "--stop-delay=3"]
        assert part["extraEnv"][0] in container["env"]
        assert part["extraVolumeMounts"][0] in container["volumeMounts"]
        assert scratch in pod["volumes"]
        assert (probe["failureThreshold"], probe["periodSeconds"]) == (9, 10)
        assert (found["spec"]["strategy"], pod["serviceAccountName"]) == (part["strategy"], "ours")
    bindings = [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]
    assert {subject["name"] for each in bindings for subject in each["subjects"]} == {"ours"}
    having = [each["kind"] for each in objects if each["metadata"].get("annotations") == annotations]
    assert having == ["MutatingWebhookConfiguration"]
    more = {(o["kind"], o["metadata"]["name"]) for o in objects if o["metadata"]["name"].endswith("-more")}
    assert more == {("ConfigMap", f"{RELEASE}-more"), ("Secret", f"{OWN_NAMESPACE}-more")}


def test_the_agents_series_keep_the_names_of_the_containers_that_they_are_of(helm):
    values = {"monitoring": {"serviceMonitor": {"enabled": True, "interval": "30s"}}}
    assert of_kind(helm.rendered(values), "PodMonitor") == []
    found = helm.rendered({**values, "agent": {"enabled": True}})
    [monitor], [agent] = of_kind(found, "PodMonitor"), of_kind(found, "DaemonSet")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["honorLabels"], endpoint["interval"]) == (True, "30s")
    labels = agent["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ports = [
        port["name"] for each in agent["spec"]["template"]["spec"]["containers"] for port in each["ports"]
    ]
    assert endpoint["port"] in ports


def rules_of(helm, role, **values):
    """Resources and verbs of a ClusterRole, in its order."""
    roles = of_kind(helm.rendered(values), "ClusterRole")
    [rules] = [each["rules"] for each in roles if each["metadata"]["name"] == f"{RELEASE}-{role}"]
    return [(rule["resources"], rule["verbs"]) for rule in rules]


def test_claims_are_read_only_where_a_policy_makes_some(helm):
    by_claim = {"agent": OFFERING, "policies": {"default": {"resources": {"mode": "dra"}}}}
    of_controller = [rules_of(helm, "controller", **values) for values in ({}, by_claim)]
    verbs = [
        [verbs for resources, verbs in rules if "resourceclaims" in resources] for rules in of_controller
    ]
    assert verbs == [[], [["list", "watch", "get"]]]
    reads = ["get", "list", "watch"]
    of_viewer = [(["gpuledgers", "gpunodes"], reads), (["resourceclaims", "resourceslices"], reads)]
    assert rules_of(helm, "ledger-viewer") == of_viewer[:1]
    assert rules_of(helm, "ledger-viewer", **by_claim) == of_viewer


WRITES = {"create", "update", "patch", "delete", "deletecollection"}
REMAINS = {
    "events": "write Events in any namespace",
    "gpuledgers": "write false GpuLedgers",
    "gpuledgers/status": "write false GpuLedgers",
    "pods/eviction": "evicts any pod if a policy says `reclaimIdle: evict`",
    "secrets": "reads and writes the private keys in its two Secrets",
}
"""What no policy limits of the controller's writes, and what the threat model says of it."""


def test_what_the_controller_may_write_is_limited_by_its_policy_or_in_the_threat_model(helm):
    values = yaml.safe_load(CI["everything"].read_text())
    policies, agent = values["policies"] | CLAIMED_AND_WAITING, OFFERING | {"podMetrics": True}
    rendered = helm.rendered(
        values | {"policies": policies, "agent": agent, "devicePlugin": {}, "nameOverride": ""}
    )
    found = {(each["kind"], each["metadata"]["name"]): each for each in rendered}
    name = f"{RELEASE}-controller"
    rules = [rule for kind in ("Role", "ClusterRole") for rule in found[kind, name]["rules"]]
    written = {each for rule in rules if WRITES & {*rule["verbs"]} for each in rule["resources"]}
    constraints = found["ValidatingAdmissionPolicy", f"{name}-writes"]["spec"]["matchConstraints"]
    limited = {each for rule in constraints["resourceRules"] for each in rule["resources"]}
    assert written - limited == REMAINS.keys() & written
    threats = " ".join(THREATS.read_text().split())
    assert [words for words in REMAINS.values() if words not in threats] == []
    assert {"resourceclaimtemplates", "pods", "nodes"} <= written & limited
