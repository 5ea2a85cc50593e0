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
from testbed.chart import RELEASE, objects_of
from testbed.controller_process import install_crd
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from tests.control_plane.admission_policies.support import unlabelled_pod

pytestmark = pytest.mark.oldest_kubernetes  # that a token names its pod's node is new in 1.30
ON = {"agent": {"enabled": True, "offer": "dra"}}
needs_dra = pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason="this Kubernetes serves no ResourceSlices")
WRONG_TYPES = (
    {"memoryMiB": {"string": "40960"}},
    {"productName": {"int": 1}},
    {f"{DRIVER}/memoryMiB": {"string": "40960"}},
)
DRIVERS = "own driver's"
UNLIMITED = Unlimited("team", "train", "uid", "main", "c" * 64, 0, 5120)


@pytest.fixture
def two_nodes(control_plane, helm, namespace):
    """The agent's rights in a cluster, and the token of one agent on each of two nodes."""
    account = f"{RELEASE}-agent"
    text = helm.manifest(ON).replace("gpu-fraction-injector", namespace)
    of_agent = [each for each in objects_of(text) if each["metadata"]["name"].startswith(account)]
    made = [o for o in of_agent if o["kind"].startswith(("ClusterRole", "ValidatingAdmissionPolicy"))]
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
    api, name = control_plane.api, f"agent-{node}"
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    control_plane.kubectl("create", "serviceaccount", account, f"--namespace={namespace}")
    tolerations = [{"operator": "Exists"}]
    pod = unlabelled_pod(name, nodeName=node, serviceAccountName=account, tolerations=tolerations)
    uid = api.create(pod, namespace)["metadata"]["uid"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={uid}")
    asked = control_plane.kubectl("create", "token", account, f"--namespace={namespace}", *bound)
    assert asked.code == 0, asked.stderr
    return asked.stdout.strip()


def client_of(control_plane, token, tmp_path):
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.home.ca_file.read_bytes())
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    return ApiServerClient(host, int(port), tmp_path)


def answer_to(write):
    """What a write returns, or the text of its refusal."""
    try:
        return write()
    except ApiServerError as error:
        return str(error)


def written(client, node):
    """What becomes of a write of a node's object by a token, through the agent's own client."""
    uid = client.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    gpus = [
        Gpu(0, "GPU-a", "A100", 40960, numa_node=1, reserved_mib=583),
        Gpu(1, "GPU-b", "A100", 81920, mig=True),
    ]
    state = AgentState(gpus[:1])
    state.set_registration("nvidia.com/gpu-0", None)
    state.elsewhere, state.unlimited, state.driver_limits = {"GPU-a": "Xid 79"}, [UNLIMITED], HELD
    body = manifest(node, uid, gpus, state, "boot-1")
    return answer_to(lambda: client.apply(f"{GPU_NODES_PATH}/{node}", body))


def of_type(kind, answer):
    return answer if isinstance(answer, kind) else None


def refusal(answer, words="own node"):
    return answer if isinstance(answer, str) and words in answer else None


def test_an_agents_token_writes_the_object_of_its_own_node_and_no_other(two_nodes, control_plane, tmp_path):
    (one, token), (other, _) = two_nodes.items()
    client = client_of(control_plane, token, tmp_path)
    status = eventually(lambda: of_type(dict, written(client, one)), "its own is written")["status"]
    shown = [(gpu["memoryMiB"], gpu.get("numaNode"), gpu["reservedMiB"]) for gpu in status["gpus"]]
    assert shown == [(40960, 1, 583), (81920, None, 0)]
    assert (status["gpuCount"], status["unhealthy"], status["driverLimits"]) == (2, 1, "held")
    assert [each["pod"] for each in status["unlimited"]["containers"]] == ["train"]
    refused = eventually(lambda: refusal(written(client, other)), "another's is refused")
    assert "an agent may write only the object of its own node" in refused


def offered(unhealthy=None):
    known = {"architecture": "Ampere", "compute_capability": (8, 0), "driver_version": "595.71.05"}
    place = {"numa_node": 1, "minor": 0, "bus": "0000:10:00.0"}
    gpu = Gpu(0, "GPU-a", "NVIDIA A100", 40960, reserved_mib=583, **place, **known)
    return devices_of([OfferedCard(gpu, unhealthy)])


def published(client, node, devices):
    """What becomes of a node's slice."""
    return answer_to(lambda: ResourceSlices(client, node).publish(devices))


def refused_change(client, node):
    """The refusal of a change of a node's slice.

    Each is another one: what comes through before the policy is in effect would be no change the next time.
    """
    numbers = count(1)
    return eventually(
        lambda: refusal(published(client, node, offered(f"Xid {next(numbers)}")), DRIVERS), "it is refused"
    )


@needs_dra
def test_an_agents_token_writes_the_slice_of_its_own_node_and_no_other(two_nodes, control_plane, tmp_path):
    (one, token), (other, _) = two_nodes.items()
    client = client_of(control_plane, token, tmp_path)
    first = eventually(lambda: of_type(Published, published(client, one, offered())), "its own is written")
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
    eventually(lambda: of_type(Published, published(others, other, offered())), "it is written")
    client = client_of(control_plane, token, tmp_path)
    refused_change(client, other)
    assert refusal(published(client, other, []), DRIVERS)
    published(others, other, [])
    # A pool's newest generation replaces all others: the scheduler would no longer see the other's cards.
    foreign = slice_manifest(one, "0", offered(), 1)
    foreign["spec"]["pool"] |= {"name": other, "generation": 9}
    assert "in the pool of that node" in refusal(posted(client, foreign), DRIVERS)
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
