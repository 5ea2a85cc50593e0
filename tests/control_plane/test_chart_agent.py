"""The node agent's part of the chart: off by default, what it mounts, and how few rights it has."""

import pytest
import yaml

from kube.dra import DRIVER, NVIDIA_DRIVER
from policies.loading.loader import load_policies
from testbed.chart import CHART, RELEASE, objects_of

ON = {"agent": {"enabled": True, "offer": "device-plugin"}}


def agent_of(helm, values):
    [found] = [each for each in helm.rendered(values) if each["kind"] == "DaemonSet"]
    return found["spec"]["template"]["spec"]


def merged(**agent):
    return {"agent": {**ON["agent"], **agent}}


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


READS = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}
RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": ["clearml-injector.io"], "resources": ["gpunodes"], "verbs": ["create", "patch"]},
    READS,
]
CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def rights_of(helm, values):
    objects, account = helm.rendered(values), agent_of(helm, values)["serviceAccountName"]
    bound = [each for each in objects if account in [subject["name"] for subject in each.get("subjects", ())]]
    assert [each["kind"] for each in bound] == ["ClusterRoleBinding"]
    name = bound[0]["roleRef"]["name"]
    [role] = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("ClusterRole", name)]
    return role["rules"]


def test_it_has_no_rights_and_capabilities_but_those_that_the_values_ask_for(helm):
    assert not [each for each in helm.rendered({}) if "agent" in each["metadata"]["name"]]
    assert rights_of(helm, ON) == RIGHTS
    [container] = agent_of(helm, ON)["containers"]
    assert container["securityContext"] == {**CONTEXT, "capabilities": {"drop": ["ALL"]}}
    assert "hostPID" not in agent_of(helm, ON)
    [privileged] = agent_of(helm, merged(privileged=True))["containers"]
    assert privileged["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    # The metrics of pods need the node's processes.
    measuring = agent_of(helm, merged(podMetrics=True))
    [container] = measuring["containers"]
    assert measuring["hostPID"] is True
    mount = {"name": "container-logs", "mountPath": "/var/log/containers", "readOnly": True}
    assert mount in container["volumeMounts"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    writes = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}
    assert [each for each in rights_of(helm, merged(podMetrics=True)) if each not in RIGHTS] == [writes]


def test_by_dra_it_has_the_kubelets_folders_of_drivers_and_its_rights(helm):
    by_dra = merged(offer="dra", kubeletDir="/k")
    [container] = agent_of(helm, by_dra)["containers"]
    assert "--offer=dra" in container["args"]
    mounts = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert {f"/k/plugins/{DRIVER}", "/k/plugins_registry"} <= mounts
    assert [each for each in rights_of(helm, by_dra) if each not in RIGHTS] == [
        {**READS, "verbs": ["get", "create", "update", "delete"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ]
    classes = [
        [o["metadata"]["name"] for o in helm.rendered(values) if o["kind"] == "DeviceClass"]
        for values in (by_dra, ON)
    ]
    assert classes == [[DRIVER], []]
    assert "plugins-registry" not in {each["name"] for each in agent_of(helm, ON)["volumes"]}


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
