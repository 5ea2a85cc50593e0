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


def test_an_old_quota_counts_nothing_of_labelled_pods(nodes, webhook, quota, create):
    nodes(GpuNode())
    webhook()
    used = quota(**{"requests.nvidia.com/gpu": "0"})
    create(with_gpu("task"))
    assert used() == {"requests.nvidia.com/gpu": "0"}


def test_a_quota_on_one_name_refuses_although_another_gpu_is_idle(nodes, webhook, quota, create):
    nodes(GpuNode(gpus=2))
    webhook()
    quota(**{"requests.nvidia.com/gpu-0": "4"})
    create(labelled_pod("task-0", "0.500"))
    with pytest.raises(ApiError, match=r"exceeded quota: quota, requested: requests\.nvidia\.com/gpu-0=4"):
        create(labelled_pod("task-1", "0.500"))


def test_in_pooled_mode_the_old_quota_counts_slices(nodes, webhook, quota, create, tmp_path):
    nodes(GpuNode(pooled=True))
    webhook(policies(tmp_path, "resources: {mode: pooled}"))
    quota(**{"requests.nvidia.com/gpu": "4"})
    create(with_gpu("task-0"))
    with pytest.raises(ApiError, match=r"exceeded quota: quota, requested: requests\.nvidia\.com/gpu=4"):
        create(with_gpu("task-1"))


def test_a_quota_of_pods_counts_labelled_pods(nodes, webhook, quota, create):
    nodes(GpuNode())
    webhook()
    quota(pods="1")
    create(labelled_pod("task-0"))
    with pytest.raises(ApiError, match="exceeded quota: quota, requested: pods=1"):
        create(labelled_pod("task-1"))


def test_a_gated_pod_has_its_slices_before_the_gate_opens(nodes, webhook, create):
    nodes(GpuNode(gpus=2))
    webhook()
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    made = create(labelled_pod("gated", "0.500", schedulingGates=gates))
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    assert [(name.startswith("nvidia.com/gpu-"), value) for name, value in limits.items()] == [(True, "4")]


def test_a_job_is_stored_as_it_was_written(nodes, webhook, create):
    nodes(GpuNode())
    webhook()
    template = with_gpu("task")
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"suspend": True, "template": template},
    }
    made = create(job)
    limits = made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "1"}


class PlainNode(GpuNode):
    """A node of a cluster that has no GPU node at this moment."""

    def manifest(self, name):
        manifest = super().manifest(name)
        labels = manifest["metadata"]["labels"]
        manifest["metadata"]["labels"] = {k: v for k, v in labels.items() if not k.startswith("nvidia.com/")}
        return manifest


def test_from_zero_a_pod_asks_for_a_name_that_a_template_node_must_have_and_for_no_label(
    nodes, webhook, create, tmp_path
):
    nodes(PlainNode(gpus=0))
    webhook(policies(tmp_path, "assume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"))
    made = create(labelled_pod("task", "0.500"))
    [(name, amount)] = made["spec"]["containers"][0]["resources"]["limits"].items()
    assert (name in {"nvidia.com/gpu-0", "nvidia.com/gpu-1"}, amount) == (True, "4")
    environment = {e["name"]: e["value"] for e in made["spec"]["containers"][0]["env"] if "value" in e}
    assert environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"
    assert "affinity" not in made["spec"]


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


def test_from_zero_without_assume_a_pod_is_denied(nodes, webhook, create):
    nodes(PlainNode(gpus=0))
    webhook()
    with pytest.raises(ApiError, match="denied the request"):
        create(labelled_pod("task", "0.500"))


def policies(folder, text):
    """A directory of one policy that is the default but for this."""
    directory = folder / "own-policies"
    directory.mkdir()
    (directory / "default.yaml").write_text(f"kind: Policy\nname: default\n{text}\n")
    return directory
