"""Many pods at once, through two webhook processes behind one address."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from testbed.admission_server import AdmissionServer
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import decides, self_signed
from testbed.registration import configuration, labelled_pod, registered

PODS, CLIENTS = 500, 20
SLICES = {"0.125": 1, "0.250": 2, "0.375": 3, "0.500": 4, "0.625": 5, "0.750": 6, "0.875": 7}
ANNOTATION = "clearml-injector/"


@pytest.fixture
def two_webhooks(control_plane, namespace, nodes, setup, tmp_path):
    """Register two webhook processes under one address that sends each review to the next of them."""
    nodes(*[GpuNode(gpus=8, memory="2Ti", cpu="1000")] * 6)
    with ExitStack() as stack:
        relays = []
        for name in ("one", "other"):
            folder = tmp_path / name
            folder.mkdir()
            product = stack.enter_context(self_signed(setup(), folder))
            relays.append(stack.enter_context(product.relay()))
        turn = itertools.cycle(relays)

        def ask_the_next(body):
            return next(turn)(body)

        address = stack.enter_context(AdmissionServer(ask_the_next))
        config = configuration("fractions", address.url, address.ca_pem)
        stack.enter_context(registered(control_plane.api, config, namespace, decides))
        yield


@pytest.fixture
def other_namespace(control_plane, namespace):
    """A second namespace for this test."""
    name = f"{namespace}-other"
    control_plane.create_namespace(name)
    yield name
    control_plane.api.delete("Namespace", name)
    control_plane.api.delete_all("Pod", name)


def test_500_pods_created_by_20_clients_are_all_admitted_and_no_gpu_is_over_full(
    two_webhooks, control_plane, namespace, other_namespace
):
    namespaces = itertools.cycle([namespace, other_namespace])
    fractions = itertools.cycle(SLICES)
    wanted = [(labelled_pod(f"pod-{n}", next(fractions)), next(namespaces)) for n in range(PODS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda each: control_plane.api.create(*each), wanted))

    def settled():
        pods = [p for n in (namespace, other_namespace) for p in control_plane.api.list("Pod", n)]
        return pods if all(p["spec"].get("nodeName") or looked_at(p) for p in pods) else []

    pods = eventually(settled, "every pod was looked at by the scheduler")
    assert len(pods) == PODS
    assert [pod["metadata"]["name"] for pod in pods if inconsistencies(pod)] == []
    held = Counter()
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            held[node, said(pod, "gpu-index")] += int(said(pod, "slices"))
    assert max(held.values()) <= 8
    assert len(held) == 48


def looked_at(pod):
    """Whether the scheduler has found no place for a pod."""
    return any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", []))


def said(pod, name):
    return pod["metadata"]["annotations"][ANNOTATION + name]


def inconsistencies(pod):
    """Where label, annotations, amounts and limits of a pod do not agree."""
    slices = SLICES[pod["metadata"]["labels"]["clearml-injector/fraction"]]
    [container] = pod["spec"]["containers"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found = {
        "slices": said(pod, "slices"),
        "limits": container["resources"]["limits"],
        "requests": container["resources"]["requests"],
        "memory": env["CUDA_DEVICE_MEMORY_LIMIT_0"],
        "affinity": [e["values"] for t in terms["nodeSelectorTerms"] for e in t["matchExpressions"]],
    }
    amounts = {f"nvidia.com/gpu-{said(pod, 'gpu-index')}": str(slices)}
    expected = {
        "slices": str(slices),
        "limits": amounts,
        "requests": amounts,
        "memory": f"{81920 * slices // 8}m",
        "affinity": [["81920"]],
    }
    return [name for name in expected if found[name] != expected[name]]
