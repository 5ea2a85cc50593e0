"""GpuNodes on a real API server: the token of one node's agent writes the object of that node alone."""

from itertools import count

import pytest
import yaml

from agent.dra.resource_slice import OfferedCard, devices_of
from agent.dra.resource_slice import manifest as slice_manifest
from agent.gpu import Gpu
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.kubernetes.gpu_node import manifest
from agent.kubernetes.resource_slices import Published, ResourceSlices
from agent.state import HELD, AgentState, Unlimited
from kube.dra import DRIVER
from kube.names import GPU_NODES_PATH, RESOURCE_SLICES_PATH
from testbed.chart import objects_of
from testbed.controller_process import install_crd
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually

pytestmark = pytest.mark.oldest_kubernetes  # that a token names its pod's node is new in 1.30
ON = {"agent": {"enabled": True, "offer": "dra"}}
needs_dra = pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason="this Kubernetes serves no ResourceSlices")
WRONG_TYPES = (
    {"memoryMiB": {"string": "40960"}},
    {"productName": {"int": 1}},
    {f"{DRIVER}/memoryMiB": {"string": "40960"}},
)
UNLIMITED = Unlimited("team", "train", "uid", "main", "c" * 64, 0, 5120)


def agent_of(helm):
    """The agent's pod."""
    [found] = [each for each in helm.rendered(ON) if each["kind"] == "DaemonSet"]
    return found["spec"]["template"]["spec"]


@pytest.fixture
def two_nodes(control_plane, helm, namespace):
    """The agent's rights in a cluster, and the token of one agent on each of two nodes."""
    account = agent_of(helm)["serviceAccountName"]
    kinds = (
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
    text = helm.manifest(ON).replace("gpu-fraction-injector", namespace)
    made = [
        each
        for each in objects_of(text)
        if each["kind"] in kinds and each["metadata"]["name"].startswith(account)
    ]
    install_crd(control_plane.api)
    applied = control_plane.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(made))
    assert applied.code == 0, applied.stderr
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


def client_of(control_plane, token, tmp_path):
    """The agent's own client, with a token."""
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.home.ca_file.read_bytes())
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    return ApiServerClient(host, int(port), tmp_path)


def written(control_plane, token, node, tmp_path):
    """What becomes of a write of a node's object by a token, through the agent's own client."""
    client = client_of(control_plane, token, tmp_path)
    uid = client.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    first = Gpu(0, "GPU-a", "A100", 40960, numa_node=1, reserved_mib=583)
    gpus = [first, Gpu(1, "GPU-b", "A100", 81920, mig=True)]
    state = AgentState([first])
    state.set_registration("nvidia.com/gpu-0", None)
    state.elsewhere, state.unlimited, state.driver_limits = {"GPU-a": "Xid 79"}, [UNLIMITED], HELD
    body = manifest(node, uid, gpus, state, "boot-1")
    try:
        return client.apply(f"{GPU_NODES_PATH}/{node}", body)
    except ApiServerError as error:
        return str(error)


def test_an_agents_token_writes_the_object_of_its_own_node_and_no_other(two_nodes, control_plane, tmp_path):
    (one, token), (other, _) = two_nodes.items()
    stored = eventually(lambda: made(written(control_plane, token, one, tmp_path)), "its own is written")
    assert [gpu["memoryMiB"] for gpu in stored["status"]["gpus"]] == [40960, 81920]
    assert (stored["status"]["gpuCount"], stored["status"]["unhealthy"]) == (2, 1)
    assert [gpu.get("numaNode") for gpu in stored["status"]["gpus"]] == [1, None]
    assert [gpu["reservedMiB"] for gpu in stored["status"]["gpus"]] == [583, 0]
    assert stored["status"]["driverLimits"] == "held"
    assert [each["pod"] for each in stored["status"]["unlimited"]["containers"]] == ["train"]
    refused = eventually(
        lambda: refusal(written(control_plane, token, other, tmp_path)), "another's is refused"
    )
    assert "an agent may write only the object of its own node" in refused


def offered(unhealthy=None):
    """Devices of a slice."""
    known = {"architecture": "Ampere", "compute_capability": (8, 0), "driver_version": "595.71.05"}
    place = {"numa_node": 1, "minor": 0, "bus": "0000:10:00.0"}
    gpu = Gpu(0, "GPU-a", "NVIDIA A100", 40960, reserved_mib=583, **place, **known)
    return devices_of([OfferedCard(gpu, unhealthy)])


def published(client, node, devices):
    """What becomes of a node's slice."""
    try:
        return ResourceSlices(client, node).publish(devices)
    except ApiServerError as error:
        return str(error)


def refused_change(client, node):
    """The refusal of a change of a node's slice.

    Each is another one: what comes through before the policy is in effect would be no change the next time.
    """
    numbers = count(1)
    return eventually(
        lambda: slice_refusal(published(client, node, offered(f"Xid {next(numbers)}"))), "it is refused"
    )


@needs_dra
def test_an_agents_token_writes_the_slice_of_its_own_node_and_no_other(two_nodes, control_plane, tmp_path):
    (one, token), (other, _) = two_nodes.items()
    client = client_of(control_plane, token, tmp_path)
    first = eventually(lambda: done(published(client, one, offered())), "its own is written")
    assert first == Published(has_shares=True, has_taints=True)

    def generation():
        [found] = [each for each in all_slices(control_plane) if each["spec"]["nodeName"] == one]
        return found["spec"]["pool"]["generation"], found["spec"]["devices"][0].get("taints", [{}])[0]

    published(client, one, offered())  # an agent that has just started writes nothing that is there
    assert generation()[0] == 1
    slices = ResourceSlices(client, one)
    for _ in range(2):
        slices.publish(offered("Xid 79"))
        number, taint = generation()
        assert (number, taint["value"]) == (2, "79")
    assert slices.others([Gpu(0, "GPU-a", "A100", 40960)]) == {}
    refused = refused_change(client, other)
    assert "use the token of a pod on that node" in refused
    slices.publish([])
    assert not [each for each in all_slices(control_plane) if each["spec"]["nodeName"] == one]


@needs_dra
def test_an_agent_can_do_nothing_to_the_slice_and_pool_of_another_node(two_nodes, control_plane, tmp_path):
    (one, token), (other, other_token) = two_nodes.items()
    (tmp_path / "other").mkdir()
    others = client_of(control_plane, other_token, tmp_path / "other")
    eventually(lambda: done(published(others, other, offered())), "it is written")
    client = client_of(control_plane, token, tmp_path)
    refused_change(client, other)
    assert slice_refusal(published(client, other, []))
    published(others, other, [])
    # A pool's newest generation replaces all others: the scheduler would no longer see the other's cards.
    foreign = slice_manifest(one, "0", offered(), 1)
    foreign["spec"]["pool"] |= {"name": other, "generation": 9}
    assert "in the pool of that node" in slice_refusal(posted(client, foreign))
    # The type of an attribute must not stop claims on other nodes.
    for wrong in WRONG_TYPES:
        body = slice_manifest(one, "0", offered(), 1)
        body["spec"]["devices"][0]["attributes"] |= wrong
        assert "an agent's card needs the attributes" in posted(client, body)


def posted(client, body):
    """What the API server says of a slice; nothing if it takes it, which is then deleted."""
    try:
        client.post(RESOURCE_SLICES_PATH, body)
    except ApiServerError as error:
        return str(error)
    client.delete(f"{RESOURCE_SLICES_PATH}/{body['metadata']['name']}")
    return ""


def all_slices(control_plane):
    return control_plane.api.list("ResourceSlice", api="resource.k8s.io/v1")


def done(answer):
    return answer if isinstance(answer, Published) else None


def slice_refusal(answer):
    return answer if isinstance(answer, str) and "own driver's" in answer else None


def made(answer):
    return answer if isinstance(answer, dict) else None


def refusal(answer):
    return answer if isinstance(answer, str) and "own node" in answer else None
