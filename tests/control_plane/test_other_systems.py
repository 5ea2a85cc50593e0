"""What docs/operating/other-systems.md says can be tried: quotas, gated pods, Jobs, scaling from zero."""

import pytest

from testbed.api import ApiError
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod


@pytest.fixture
def quota(control_plane, namespace):
    """Put a ResourceQuota into the namespace, wait until it counts, and return how to ask what is used."""

    def used():
        return control_plane.api.get("ResourceQuota", "quota", namespace).get("status", {}).get("used")

    def make(**hard):
        quota = {"metadata": {"name": "quota"}, "spec": {"hard": hard}}
        control_plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota}, namespace)
        eventually(used, "the quota counts")
        return used

    return make


@pytest.fixture
def create(control_plane, namespace):
    """Create an object in the test's namespace and return it as it is stored."""
    return lambda manifest: control_plane.api.create(manifest, namespace)


def with_gpu(name):
    pod = labelled_pod(name, "0.500")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return pod


ONE_NAME, POOL = {"requests.nvidia.com/gpu-0": "4"}, {"requests.nvidia.com/gpu": "4"}
QUOTAS = {
    "of GPUs counts no labelled pod": ("", {"requests.nvidia.com/gpu": "0"}, None),
    "on one name, though another GPU is idle": ("", ONE_NAME, "requests.nvidia.com/gpu-0=4"),
    "of GPUs counts slices of a pool": ("resources: {mode: pooled}", POOL, "requests.nvidia.com/gpu=4"),
    "of pods counts labelled pods": ("", {"pods": "1"}, "pods=1"),
}


@pytest.mark.parametrize(("policy", "hard", "exceeded"), QUOTAS.values(), ids=QUOTAS)
def test_a_quota_of_kubernetes(nodes, webhook, quota, create, tmp_path, policy, hard, exceeded):  # noqa: PLR0913, PLR0917 fixtures
    nodes(GpuNode(gpus=2, pooled="pooled" in policy))
    webhook(policies(tmp_path, policy))
    quota(**hard)
    create(with_gpu("task-0"))
    if exceeded is None:
        create(with_gpu("task-1"))
        return
    with pytest.raises(ApiError) as refused:
        create(with_gpu("task-1"))
    assert f"exceeded quota: quota, requested: {exceeded}" in str(refused.value)


class PlainNode(GpuNode):
    """A node of a cluster that has no GPU node at this moment."""

    def manifest(self, name):
        manifest = super().manifest(name)
        labels = manifest["metadata"]["labels"]
        manifest["metadata"]["labels"] = {k: v for k, v in labels.items() if not k.startswith("nvidia.com/")}
        return manifest


@pytest.fixture(params=["admission", "agent"])
def waiting(request, nodes, webhook, create, tmp_path):
    """A pod of a cluster without a GPU node, whose policy assumes some."""
    nodes(PlainNode(gpus=0))
    keys = f"limits: {{from: {request.param}}}\nassume: {{gpusPerNode: 2, gpuMemoryMiB: 81920}}"
    webhook(policies(tmp_path, keys))
    return create(labelled_pod("task", "0.500"))


@pytest.mark.usefixtures("waiting")
def test_from_zero_the_scheduler_takes_a_template_node_of_names_only_and_none_without_the_names(
    control_plane, namespace, nodes
):
    """The scheduler's own filters are what the Cluster Autoscaler asks about a group's template node."""
    eventually(lambda: "Insufficient nvidia.com/gpu-" in waits_for(control_plane, namespace), "it waits")
    [template] = nodes(PlainNode(gpus=2))
    eventually(lambda: on_node(control_plane, namespace) == template, "it is bound")


def waits_for(control_plane, namespace):
    """What the scheduler says that the task's pod lacks."""
    conditions = control_plane.api.get("Pod", "task", namespace).get("status", {}).get("conditions", [])
    return " ".join(each.get("message", "") for each in conditions)


def on_node(control_plane, namespace):
    return control_plane.api.get("Pod", "task", namespace)["spec"].get("nodeName")


def policies(folder, text):
    """A directory of one policy that is the default but for this."""
    directory = folder / "own-policies"
    directory.mkdir()
    (directory / "default.yaml").write_text(f"kind: Policy\nname: default\n{text}\n")
    return directory
