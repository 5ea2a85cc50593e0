"""A MIG node and a time-sliced one behind one request: webhook, controller, scheduler, and churn of pods."""

import random
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from testbed.controller_process import Controller, asking_webhook, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import decides
from testbed.registration import configuration, labelled_pod, registered

BOTH = "kind: Policy\nname: default\nresources: {mode: %s, prefer: [mig, %s]}\nlimiter: none\n"
SINGLE = "NVIDIA-A100-SXM4-80GB-MIG-2g.20gb"
MIG = {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1}
EIGHTHS = {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 4}
OF_SINGLE = 2
"""Eighths of an instance on the node of strategy `single`."""


@pytest.fixture(params=["per-gpu", "pooled"])
def mode(request):
    """How slices are asked for, in addition to instances."""
    return request.param


@pytest.fixture
def cluster(control_plane, namespace, tmp_path, mode):
    """A MIG node of either strategy, a sliced one, a controller and a webhook that asks it."""
    api = control_plane.api
    install_crd(api)
    nodes = [
        GpuNode(gpus=0, instances=MIG).manifest(f"{namespace}-mig"),
        GpuNode(gpus=0, product=SINGLE, instances={"nvidia.com/gpu": 2}).manifest(f"{namespace}-single"),
        GpuNode(memory_mib=46068, product="NVIDIA-L40S", pooled=mode == "pooled").manifest(f"{namespace}-s"),
    ]
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "default.yaml").write_text(BOTH % (mode, mode))
    tls = write_tls(tmp_path / "tls", make_authority(datetime.now(UTC)))
    with ExitStack() as stack:
        for node in nodes:
            api.create(node)
            stack.callback(api.delete, "Node", node["metadata"]["name"])
        controller = Controller(control_plane.kubeconfig, tmp_path, tls, lease=f"c-{namespace}", name="a")
        stack.callback(controller.stop)
        webhook = asking_webhook(controller.url, tls, tmp_path, tmp_path / "policies")
        stack.callback(webhook.stop)
        config = configuration("fractions", webhook.url, webhook.ca_pem)
        stack.enter_context(registered(api, config, namespace, decides))
        yield api


def amounts_of(pod):
    (task,) = pod["spec"]["containers"]
    limits = task["resources"]["limits"]
    return {name: int(amount) for name, amount in limits.items() if name.startswith("nvidia.com/")}


def family_and_eighths(pod):
    """Where a pod is to run, and what it was given there."""
    [(resource, amount)] = amounts_of(pod).items()
    if resource in EIGHTHS:
        return "mixed", EIGHTHS[resource] * amount
    if "clearml-injector/memory-mib" in pod["metadata"]["annotations"]:
        return "slices", amount
    assert resource == "nvidia.com/gpu"
    return "single", OF_SINGLE * amount


def held(pods):
    """What bound pods hold of each node."""
    total = Counter()
    for pod in pods:
        for name, amount in amounts_of(pod).items() if pod["spec"].get("nodeName") else ():
            total[pod["spec"]["nodeName"], name] += amount
    return total


def test_pods_that_come_and_go_never_hold_more_than_the_nodes_have(cluster, namespace):
    chance, live, families = random.Random(1), [], Counter()  # noqa: S311 - repeatable churn
    offered = {
        (node["metadata"]["name"], name): int(amount)
        for node in cluster.list("Node")
        if node["metadata"]["name"].startswith(f"{namespace}-")
        for name, amount in node["status"]["allocatable"].items()
        if name.startswith("nvidia.com/")
    }
    for number in range(30):
        share = chance.choice(["0.125", "0.250", "0.500"])
        made = cluster.create(labelled_pod(f"pod-{number}", share), namespace)
        family, given = family_and_eighths(made)
        assert given >= float(share) * 8
        assert given <= 2 * float(share) * 8
        families[family] += 1
        live.append(made["metadata"]["name"])
        taken = held(cluster.list("Pod", namespace))
        assert all(count <= offered[where] for where, count in taken.items())
        if len(live) > chance.randint(4, 9):
            cluster.delete("Pod", live.pop(0), namespace)
    assert set(families) == {"mixed", "single", "slices"}


@pytest.mark.parametrize("mode", ["pooled"], indirect=True)
def test_an_instance_and_slices_of_one_name_are_distinguished(cluster, namespace):
    pods = [cluster.create(labelled_pod(f"pod-{number}", "0.250"), namespace) for number in range(4)]
    families = [family_and_eighths(pod) for pod in pods]
    assert families == [("single", 2), ("single", 2), ("mixed", 4), ("slices", 2)]
    required = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for pod in pods
    ]
    assert [SINGLE in str(each) for each in required] == [True, True, False, False]
    for pod, node in zip(pods, ("single", "single", "mig", "s"), strict=True):
        name = pod["metadata"]["name"]
        eventually(
            lambda name=name: cluster.get("Pod", name, namespace)["spec"].get("nodeName"), f"{name} is bound"
        )
        assert cluster.get("Pod", name, namespace)["spec"]["nodeName"] == f"{namespace}-{node}"
