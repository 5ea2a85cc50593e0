"""The node agent's part of the chart: off by default, what it mounts, and how few rights it has."""

import subprocess

import pytest
import yaml

from agent.gpu import Gpu
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.kubernetes.gpu_node import COLLECTION, manifest
from testbed.chart import Helm
from testbed.process import eventually
from testbed.product import COMMAND

ON = {"agent": {"enabled": True}}


@pytest.fixture
def helm(control_plane, tmp_path):
    return Helm(control_plane, tmp_path)


def agent_of(helm, values):
    """The agent's pod."""
    [found] = [each for each in helm.rendered(values) if each["kind"] == "DaemonSet"]
    return found["spec"]["template"]["spec"]


def merged(**agent):
    return {"agent": {"enabled": True, **agent}}


def test_it_is_off_unless_the_values_say_otherwise(helm):
    assert not [each for each in helm.rendered({}) if "agent" in each["metadata"]["name"]]


def test_it_is_started_with_options_that_it_knows(helm):
    [container] = agent_of(helm, ON)["containers"]
    subcommand, *options = container["args"]
    known = subprocess.run([COMMAND, subcommand, "--help"], capture_output=True, text=True, check=True).stdout
    assert {option.partition("=")[0] for option in options} <= set(known.split())


def test_folders_of_the_node_are_where_its_options_say(helm):
    pod = agent_of(helm, merged(kubeletDir="/k", stateDir="/s", cdiDirs=["/c", "/d"], runtimeSocket="/r"))
    [container] = pod["containers"]
    on_node = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    here = {name: each["mountPath"] for name, each in mounts.items() if name in on_node}
    assert here == {name: path for name, path in on_node.items() if name != "node-library"}
    assert {"/k/device-plugins", "/k/pod-resources", "/s", "/c", "/d", "/r"} == set(here.values())
    assert on_node["node-library"] == "/s/library"
    writable = {each["mountPath"] for each in mounts.values() if not each.get("readOnly")}
    assert writable == {"/k/device-plugins", "/s", "/d"}
    told = dict(option.removeprefix("--").split("=", 1) for option in container["args"][1:])
    assert (told["kubelet-dir"], told["state-dir"], told["runtime-endpoint"]) == ("/k", "/s", "/r")


def test_the_runtimes_socket_is_not_mounted_where_its_version_is_known(helm):
    pod = agent_of(helm, merged(runtimeVersion="containerd://1.7.27"))
    assert "runtime" not in {each["name"] for each in pod["volumes"]}
    assert "--runtime-version=containerd://1.7.27" in pod["containers"][0]["args"]


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


def test_the_library_comes_from_the_image_of_the_policys_limiter(helm):
    mirror = {"hami-core": {"extends": "hami-core", "initContainer": {"image": "mirror.test/hamicore:v2"}}}
    library, to_node = agent_of(helm, {**ON, "limiters": mirror})["initContainers"]
    assert library["image"] == "mirror.test/hamicore:v2"
    assert library["volumeMounts"] == [{"name": "library", "mountPath": "/usr/local/vgpu"}]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in library["env"]
    assert {each["name"] for each in to_node["volumeMounts"]} == {"library", "node-library"}


def test_a_limiter_without_a_library_needs_no_init_container(helm):
    assert "initContainers" not in agent_of(helm, {**ON, "policies": {"default": {"limiter": "none"}}})


def test_the_limiter_is_that_of_the_agents_policy(helm):
    policies = {"default": {}, "free": {"limiter": "none", "namespaces": ["free"]}}
    assert "initContainers" not in agent_of(helm, {"policies": policies, **merged(policy="free")})


@pytest.fixture
def two_nodes(control_plane, helm, namespace):
    """The agent's rights in a cluster, and the token of one agent on each of two nodes."""
    account = agent_of(helm, ON)["serviceAccountName"]
    kinds = (
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
    text = helm.manifest(ON).replace("gpu-fraction-injector", namespace)
    made = [
        each
        for each in yaml.safe_load_all(text)
        if each
        and (
            (each["kind"] in kinds and each["metadata"]["name"].startswith(account))
            or each["metadata"]["name"] == "gpunodes.clearml-injector.io"
        )
    ]
    applied = control_plane.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(made))
    assert applied.code == 0, applied.stderr
    crd = "gpunodes.clearml-injector.io"
    assert control_plane.kubectl("wait", "--for=condition=Established", "crd", crd).code == 0
    names = [f"{namespace}-{number}" for number in (1, 2)]
    tokens = [token_on(control_plane, namespace, account, name) for name in names]
    yield dict(zip(names, tokens, strict=True))
    control_plane.kubectl("delete", "--filename=-", "--wait=false", stdin=yaml.safe_dump_all(made))
    control_plane.kubectl("delete", "node", *names)


def token_on(control_plane, namespace, account, node):
    """The token of a service account's pod on a node, as a kubelet asks for it."""
    api = control_plane.api
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    wanted = yaml.safe_dump({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    control_plane.kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=wanted)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{node}"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": account,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "agent:1"}],
        },
    }
    uid = api.create(pod, namespace)["metadata"]["uid"]
    asked = control_plane.kubectl(
        *("create", "token", account, f"--namespace={namespace}"),
        *("--bound-object-kind=Pod", f"--bound-object-name=agent-{node}", f"--bound-object-uid={uid}"),
    )
    assert asked.code == 0, asked.stderr
    return asked.stdout.strip()


def written(control_plane, token, node, tmp_path):
    """What becomes of a write of a node's object by a token, through the agent's own client."""
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.home.ca_file.read_bytes())
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    client = ApiServerClient(host, int(port), tmp_path)
    uid = client.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    gpus = [Gpu(0, "GPU-a", "A100", 40960), Gpu(1, "GPU-b", "A100", 81920, mig=True)]
    try:
        return client.apply(f"{COLLECTION}/{node}", manifest(node, uid, gpus, {"GPU-a": "Xid 79"}, None))
    except ApiServerError as error:
        return str(error)


def test_an_agents_token_writes_the_object_of_its_own_node_and_no_other(two_nodes, control_plane, tmp_path):
    (one, token), (other, _) = two_nodes.items()
    stored = eventually(lambda: made(written(control_plane, token, one, tmp_path)), "its own is written", 30)
    assert [gpu["memoryMiB"] for gpu in stored["status"]["gpus"]] == [40960, 81920]
    assert (stored["status"]["gpuCount"], stored["status"]["unhealthy"]) == (2, 1)
    refused = eventually(
        lambda: refusal(written(control_plane, token, other, tmp_path)), "another's is refused", 30
    )
    assert "an agent writes the object of its own node alone" in refused


def test_a_token_without_a_pod_writes_nothing(two_nodes, control_plane, namespace, helm, tmp_path):
    account = agent_of(helm, ON)["serviceAccountName"]
    token = control_plane.kubectl("create", "token", account, f"--namespace={namespace}").stdout.strip()
    node = next(iter(two_nodes))
    refused = eventually(lambda: refusal(written(control_plane, token, node, tmp_path)), "it is refused", 30)
    assert "an agent writes the object of its own node alone" in refused


def made(answer):
    return answer if isinstance(answer, dict) else None


def refusal(answer):
    return answer if isinstance(answer, str) and "own node" in answer else None
