"""What newer releases of Kubernetes let a labelled pod say: what webhook, lock and API server make of it.

What only a kubelet can show is in tests/long/real_nodes/test_pod_features.py and tests/long/agent_nodes.
"""

import pytest

from testbed import kubernetes_version
from testbed.api import ApiError
from testbed.kubernetes_version import UNDER_TEST
from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.support import unlabelled_pod

AMOUNTS = {"cpu": "2", "memory": "2Gi"}


def needs(fact: str):
    """Skip where this release lacks what testbed/kubernetes_version.py calls so."""
    reason = f"Kubernetes {UNDER_TEST.name}: not {fact}"
    return pytest.mark.skipif(not getattr(kubernetes_version, fact), reason=reason)


@pytest.fixture
def create(lock, control_plane, namespace):
    """Create a pod in the test's namespace, and return it as it is stored."""
    return lambda pod, **more: control_plane.api.create(pod, namespace, **more)


def slices(container):
    limits = container.get("resources", {}).get("limits", {})
    return {name: amount for name, amount in limits.items() if name.startswith("nvidia.com/")}


def has_its_share(pod, name="task"):
    """Whether the container of this name, and no other, holds half a GPU and its limiter."""
    [task] = [each for each in pod["spec"]["containers"] if each["name"] == name]
    others = [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]
    variables = {each["name"]: each.get("value") for each in task["env"]}
    mib = pod["metadata"]["annotations"]["clearml-injector/memory-mib"]
    return (
        list(slices(task).values()) == ["4"]
        and variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{mib}m"
        and not any(slices(each) for each in others if each is not task)
        and pod["spec"]["initContainers"][0]["name"] == "gpu-limiter"
    )


@needs("HAS_POD_LEVEL_RESOURCES")
def test_resources_of_the_pod_and_its_class_stay_and_may_name_no_gpu(create):
    of_pods = {"limits": AMOUNTS, "requests": AMOUNTS}, {"limits": AMOUNTS}, {"requests": AMOUNTS}
    for of_pod in of_pods:
        made = create(labelled_pod("task", "0.500", resources=of_pod), dry_run=True)
        without = create(unlabelled_pod("task", resources=of_pod), dry_run=True)
        assert made["spec"]["resources"] == without["spec"]["resources"]
        assert made["status"]["qosClass"] == without["status"]["qosClass"]
        assert has_its_share(made)
    gpu = {"limits": {"nvidia.com/gpu-0": "1"}, "requests": {"nvidia.com/gpu-0": "1"}}
    with pytest.raises(ApiError, match=r"spec\.resources\.(requests|limits)\[nvidia\.com/gpu") as error:
        create(labelled_pod("task", "0.500", resources=gpu))
    assert error.value.code == 422


@needs("HAS_RESTART_RULES")
def test_a_pod_of_many_features_is_stored_as_it_was_written(create):
    """A user namespace, an image volume, rules of restarts, a sidecar, a container that always restarts."""
    image = {"name": "model", "image": {"reference": "example.com/model:1", "pullPolicy": "Always"}}
    sidecar = {"name": "mesh", "image": "example.com/mesh:1", "restartPolicy": "Always"}
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    pod = labelled_pod(
        "task", "0.500", hostUsers=False, volumes=[image], initContainers=[sidecar], restartPolicy="Never"
    )
    of_task = {"restartPolicy": "Never", "restartPolicyRules": rules}
    of_task["volumeMounts"] = [{"name": "model", "mountPath": "/models"}]
    pod["spec"]["containers"][0] |= of_task
    pod["spec"]["containers"].append(
        {"name": "metrics", "image": "example.com/m:1", "restartPolicy": "Always"}
    )
    made = create(pod, dry_run=True)
    spec = made["spec"]
    assert has_its_share(made)
    assert spec["hostUsers"] is False
    assert image in spec["volumes"]
    assert of_task["volumeMounts"][0] in spec["containers"][0]["volumeMounts"]
    assert spec["containers"][0]["restartPolicyRules"] == rules
    assert [each["name"] for each in spec["initContainers"]] == ["gpu-limiter", "mesh"]
    void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    assert all(void in each["env"] for each in (spec["initContainers"][1], spec["containers"][1]))
