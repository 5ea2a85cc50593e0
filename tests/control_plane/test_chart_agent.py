"""The node agent's part of the chart: off by default, what it mounts, and how few rights it has."""

import pytest
import yaml

from kube.dra import DRIVER, NVIDIA_DRIVER
from policies.loading.loader import load_policies
from testbed.chart import CHART, RELEASE, objects_of

ON = {"agent": {"enabled": True, "offer": "device-plugin"}}


def agent_of(helm, values):
    """The agent's pod."""
    [found] = [each for each in helm.rendered(values) if each["kind"] == "DaemonSet"]
    return found["spec"]["template"]["spec"]


def merged(**agent):
    return {"agent": {**ON["agent"], **agent}}


def test_it_is_off_unless_the_values_say_otherwise(helm):
    assert not [each for each in helm.rendered({}) if "agent" in each["metadata"]["name"]]


def test_the_runtimes_socket_is_mounted_by_a_container_that_ends_alone(helm):
    pod = agent_of(helm, merged(runtimeSocket="/r"))
    *_, asks = pod["initContainers"]
    assert asks["command"] == ["python3", "-m", "agent.ask_runtime", "/r", "/answers/runtime"]
    assert asks["volumeMounts"] == [
        {"name": "runtime", "mountPath": "/r", "readOnly": True},
        {"name": "answers", "mountPath": "/answers"},
    ]
    mounting = [
        container["name"]
        for container in [*pod["initContainers"], *pod["containers"]]
        if "runtime" in {mount["name"] for mount in container["volumeMounts"]}
    ]
    assert mounting == ["ask-runtime"]
    [agent] = pod["containers"]
    assert {"name": "answers", "mountPath": "/answers", "readOnly": True} in agent["volumeMounts"]
    assert "--runtime-file=/answers/runtime" in agent["args"]
    assert "--cdi-enabled" not in agent["args"]


def test_nobody_asks_the_runtime_where_the_admin_says_it(helm):
    pod = agent_of(helm, merged(cdiEnabled=True))
    assert not {"runtime", "answers"} & {each["name"] for each in pod["volumes"]}
    assert [each["name"] for each in pod["initContainers"]] == ["library"]
    said = [each for each in pod["containers"][0]["args"] if each.startswith(("--runtime", "--cdi-enabled"))]
    assert said == ["--cdi-enabled"]


def policies_of(helm, folder, values):
    """The chart's policies, as the webhook loads them."""
    [found] = [each for each in helm.rendered(values) if each["metadata"]["name"] == f"{RELEASE}-policies"]
    folder.mkdir()
    for name, content in found["data"].items():
        (folder / name).write_text(content)
    return load_policies(folder)


def test_its_places_on_the_node_are_protected_by_every_policy(helm, tmp_path):
    agent = merged(kubeletDir="/k/", stateDir="//s/x", cdiDirs=["/etc/cdi", "/d/"], runtimeSocket="/r/sock")
    own = {"other": {"namespaces": ["other"], "protectedHostPaths": ["/opt/mine"]}}
    shut = policies_of(helm, tmp_path / "on", {**agent, "policies": {"default": {}, **own}})
    places = ("/s/x", "/k", "/r/sock", "/etc/cdi", "/d")
    assert shut.compiled[None, "default"].effective.protected_host_paths == places
    assert shut.compiled[None, "other"].effective.protected_host_paths == ("/opt/mine", *places)
    off = policies_of(helm, tmp_path / "off", {"policies": {"default": {}, **own}})
    assert off.compiled[None, "default"].effective.protected_host_paths == ()
    assert off.compiled[None, "other"].effective.protected_host_paths == ("/opt/mine",)


def test_by_dra_it_has_the_kubelets_folders_of_drivers_and_its_rights(helm):
    by_dra = merged(offer="dra", kubeletDir="/k")
    pod = agent_of(helm, by_dra)
    [container] = pod["containers"]
    assert "--offer=dra" in container["args"]
    mounts = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert {f"/k/plugins/{DRIVER}", "/k/plugins_registry"} <= mounts
    reads = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}
    assert rules_of_dra(helm, ON) == [reads]
    assert rules_of_dra(helm, by_dra) == [
        reads,
        {**reads, "verbs": ["get", "create", "update", "delete"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ]
    [device_class] = [each for each in helm.rendered(by_dra) if each["kind"] == "DeviceClass"]
    assert device_class["metadata"]["name"] == DRIVER
    assert not [each for each in helm.rendered(ON) if each["kind"] == "DeviceClass"]
    assert "plugins-registry" not in {each["name"] for each in agent_of(helm, ON)["volumes"]}


def rules_of_dra(helm, values):
    """Rules of the agent's role about Dynamic Resource Allocation."""
    roles = [each for each in helm.rendered(values) if each["kind"] == "ClusterRole"]
    agents = [each for each in roles if each["metadata"]["name"].endswith("-agent")]
    return [rule for each in agents for rule in each["rules"] if "resource.k8s.io" in rule["apiGroups"]]


def test_its_rights_are_to_read_a_node_and_to_write_what_it_says_of_it(helm):
    objects = helm.rendered(ON)
    account = agent_of(helm, ON)["serviceAccountName"]
    bound = [each for each in objects if account in [subject["name"] for subject in each.get("subjects", ())]]
    assert [each["kind"] for each in bound] == ["ClusterRoleBinding"]
    [role] = [
        each
        for each in objects
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == bound[0]["roleRef"]["name"]
    ]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": ["clearml-injector.io"], "resources": ["gpunodes"], "verbs": ["create", "patch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
    ]


def test_it_is_privileged_only_where_the_values_say_so(helm):
    contexts = [each["securityContext"] for each in agent_of(helm, ON)["containers"]]
    assert contexts == [
        {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    ]
    [privileged] = agent_of(helm, merged(privileged=True))["containers"]
    assert privileged["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}


def test_it_sees_the_nodes_processes_only_where_the_values_ask_for_the_metrics_of_pods(helm):
    assert "hostPID" not in agent_of(helm, ON)
    pod = agent_of(helm, merged(podMetrics=True))
    assert pod["hostPID"] is True
    mount = {"name": "container-logs", "mountPath": "/var/log/containers", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    rules = [
        rule
        for each in helm.rendered(merged(podMetrics=True))
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == pod["serviceAccountName"]
        for rule in each["rules"]
    ]
    assert {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]} in rules


PREFERRING = {"resources": {"prefer": ["mig", "per-gpu"]}}
NVIDIAS = {"mode": "dra", "driver": NVIDIA_DRIVER}
NEW, OLD = "--kube-version=1.36.1-gke.1", "--kube-version=1.35.4"
ON_AUTO = {"agent": {"enabled": True}}


@pytest.mark.parametrize(
    ("version", "values", "offer", "mode"),
    [
        (NEW, ON_AUTO, "dra", "dra"),
        (OLD, ON_AUTO, "device-plugin", "per-gpu"),
        (NEW, {}, None, "per-gpu"),
        (NEW, ON, "device-plugin", "per-gpu"),
        (OLD, {"agent": {"enabled": True, "offer": "dra"}}, "dra", "dra"),
        (NEW, {"agent": {"enabled": True, "divide": ["0"]}}, "device-plugin", "per-gpu"),
        (NEW, {**ON_AUTO, "devicePlugin": {"enabled": True}}, "device-plugin", "per-gpu"),
        (NEW, {**ON_AUTO, "policies": {"default": {"resources": NVIDIAS}}}, "device-plugin", "dra"),
        (OLD, {**ON_AUTO, "policies": {"default": {"resources": {"driver": DRIVER}}}}, "dra", "dra"),
        (NEW, {**ON_AUTO, "policies": {"default": {}, "other": PREFERRING}}, "device-plugin", "per-gpu"),
    ],
)
def test_mode_auto_is_dra_where_the_agent_offers_cards_to_claims(helm, version, values, offer, mode):
    rendered = helm.run("template", RELEASE, str(CHART), version, helm.values(values))
    assert rendered.code == 0, rendered.stderr
    objects = objects_of(rendered.stdout)
    agents = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "DaemonSet"]
    options = [option for pod in agents for option in pod["containers"][0]["args"]]
    assert [option for option in options if "--offer" in option] == ([f"--offer={offer}"] if offer else [])
    [files] = [each["data"] for each in objects if "policy-default.yaml" in each.get("data", {})]
    assert yaml.safe_load(files["policy-default.yaml"])["resources"]["mode"] == mode
