"""A MIG node and a time-sliced one behind one request: webhook, controller, scheduler, and churn of pods."""

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod

SINGLE = "NVIDIA-A100-SXM4-80GB-MIG-2g.20gb"
MIG = {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1}
EIGHTHS = {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 4}
OF_SINGLE = 2
"""Eighths of an instance on the node of strategy `single`."""
NODES = {
    "mig": GpuNode(gpus=0, instances=MIG),
    "single": GpuNode(gpus=0, product=SINGLE, instances={"nvidia.com/gpu": 2}),
    "s": GpuNode(memory_mib=46068, product="NVIDIA-L40S", pooled=True),
}


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


def test_an_instance_and_slices_of_one_name_are_distinguished(control_plane, nodes, serve, namespace):
    cluster = control_plane.api
    nodes(*NODES.values(), names=tuple(f"{namespace}-{name}" for name in NODES))
    serve("resources: {mode: pooled, prefer: [mig, pooled]}\nlimiter: none")
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
