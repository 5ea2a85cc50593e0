"""What newer releases of Kubernetes let a labelled pod say: what webhook, lock and API server make of it.

What only a kubelet can show is in tests/real_nodes/test_pod_features.py and test_agent_pod_features.py.
"""

import pytest

from testbed import kubernetes_version
from testbed.api import ApiError
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.support import unlabelled_pod

STRATEGIC = "application/strategic-merge-patch+json"
AMOUNTS = {"cpu": "2", "memory": "2Gi"}
GATES = [{"name": "example.com/wait"}]


def needs(fact: str):
    """Skip where this release lacks what testbed/kubernetes_version.py calls so."""
    reason = f"Kubernetes {UNDER_TEST.name}: not {fact}"
    return pytest.mark.skipif(not getattr(kubernetes_version, fact), reason=reason)


@pytest.fixture
def create(lock, control_plane, namespace):
    """Create a pod in the test's namespace, and return it as it is stored."""
    return lambda pod, **more: control_plane.api.create(pod, namespace, **more)


@pytest.fixture
def resize(control_plane, namespace):
    """Change the limits of a pod's first container, and its requests with them, by `pods/resize`."""

    def change(name, limits):
        stored = control_plane.api.get("Pod", name, namespace)["spec"]["containers"][0]
        resources = {"limits": limits, "requests": limits}
        change = {"spec": {"containers": [{"name": stored["name"], "resources": resources}]}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/resize"
        return control_plane.api.call("PATCH", path, change, content=STRATEGIC)

    return change


def slices(container):
    """What a container asks for of our names."""
    limits = container.get("resources", {}).get("limits", {})
    return {name: amount for name, amount in limits.items() if name.startswith("nvidia.com/")}


def with_resources(pod, amounts):
    """The pod, whose container asks for so much and no more."""
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    return pod


def has_its_share(pod, name="task"):
    """Whether the container of this name, and no other, holds half a GPU and its limiter."""
    [task] = [each for each in pod["spec"]["containers"] if each["name"] == name]
    others = [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]
    variables = {each["name"]: each.get("value") for each in task["env"]}
    return (
        list(slices(task).values()) == ["4"]
        and variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == pod["metadata"]["annotations"][MEMORY] + "m"
        and variables["LD_PRELOAD"] == "/usr/local/vgpu/libvgpu.so"
        and not any(slices(each) for each in others if each is not task)
        and pod["spec"]["initContainers"][0]["name"] == "gpu-limiter"
    )


MEMORY = "clearml-injector/memory-mib"


@needs("HAS_POD_RESIZE")
@pytest.mark.parametrize("amount", ["1", "8", "0"])
def test_the_slices_of_a_pod_cannot_be_resized(create, resize, control_plane, namespace, amount):
    made = create(with_resources(labelled_pod("task", "0.500", schedulerName="nobody"), AMOUNTS))
    [name] = slices(made["spec"]["containers"][0])
    with pytest.raises(ApiError, match="only cpu and memory resources are mutable"):
        resize("task", {**AMOUNTS, name: amount})
    kept = control_plane.api.get("Pod", "task", namespace)
    assert kept["spec"] == made["spec"]


@needs("HAS_POD_RESIZE")
def test_cpu_and_memory_of_a_pod_are_resized_and_its_share_stays(create, resize):
    made = create(with_resources(labelled_pod("task", "0.500", schedulerName="nobody"), AMOUNTS))
    changed = resize("task", {"cpu": "3", "memory": "4Gi"})
    limits = changed["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["cpu"], limits["memory"]) == ("3", "4Gi")
    assert has_its_share(changed)
    assert changed["metadata"]["annotations"] == made["metadata"]["annotations"]
    assert changed["status"]["qosClass"] == made["status"]["qosClass"] == "Guaranteed"


POD_LEVEL = {
    "guaranteed, of the pod alone": ({"limits": AMOUNTS, "requests": AMOUNTS}, {}),
    "burstable, of the pod alone": ({"limits": AMOUNTS}, {}),
    "of pod and container": ({"limits": AMOUNTS, "requests": AMOUNTS}, {"cpu": "1", "memory": "1Gi"}),
    "requests alone": ({"requests": AMOUNTS}, {}),
}


@needs("HAS_POD_LEVEL_RESOURCES")
@pytest.mark.parametrize(("of_pod", "of_container"), POD_LEVEL.values(), ids=POD_LEVEL)
def test_resources_of_the_pod_and_its_class_stay(create, of_pod, of_container):
    def asking(pod):
        pod["spec"] |= {"resources": of_pod}
        return with_resources(pod, of_container) if of_container else pod

    made = create(asking(labelled_pod("task", "0.500")), dry_run=True)
    without = create(asking(unlabelled_pod("task")), dry_run=True)
    assert made["spec"]["resources"] == without["spec"]["resources"]
    assert made["status"]["qosClass"] == without["status"]["qosClass"]
    assert has_its_share(made)


@needs("HAS_POD_LEVEL_RESOURCES")
@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu-0"])
def test_a_gpu_for_the_pod_as_a_whole_is_refused_by_the_api_server(create, name):
    pod = labelled_pod("task", "0.500")
    pod["spec"]["resources"] = {"limits": {name: "1"}, "requests": {name: "1"}}
    with pytest.raises(ApiError, match=r"spec\.resources\.(requests|limits)\[nvidia\.com/gpu") as error:
        create(pod)
    assert error.value.code == 422


@needs("HAS_USER_NAMESPACES")
def test_a_pod_in_a_user_namespace_gets_its_share(create):
    made = create(labelled_pod("task", "0.500", hostUsers=False))
    assert made["spec"]["hostUsers"] is False
    assert has_its_share(made)


def with_image_volume(path):
    """A labelled pod that mounts an image."""
    volume = {"name": "model", "image": {"reference": "example.com/model:1"}}
    pod = labelled_pod("task", "0.500", volumes=[volume])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "model", "mountPath": path}]
    return pod


@needs("HAS_IMAGE_VOLUMES")
def test_an_image_volume_stays_next_to_the_limiters_volumes(create):
    made = create(with_image_volume("/models"))
    kept = {volume["name"]: volume for volume in made["spec"]["volumes"]}["model"]
    assert kept["image"]["reference"] == "example.com/model:1"
    assert "/models" in [mount["mountPath"] for mount in made["spec"]["containers"][0]["volumeMounts"]]
    assert has_its_share(made)


@needs("HAS_IMAGE_VOLUMES")
@pytest.mark.parametrize("path", ["/usr/local/vgpu", "/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu-cache"])
def test_an_image_cannot_be_mounted_where_the_limiter_goes(create, path):
    with pytest.raises(ApiError, match=f"mounts {path}, a path of the GPU memory limiter: use another path"):
        create(with_image_volume(path))


def test_a_gated_pod_keeps_its_share_until_the_gate_opens_and_runs(create, control_plane, namespace):
    made = create(labelled_pod("task", "0.500", schedulingGates=GATES))
    assert has_its_share(made)
    path = f"/api/v1/namespaces/{namespace}/pods/task"
    # Such as Kueue does with the labels of a flavor.
    narrowed = {"spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}}}
    control_plane.api.call("PATCH", path, narrowed, content=STRATEGIC)
    opened = {"spec": {"schedulingGates": [{"$patch": "replace"}]}}
    control_plane.api.call("PATCH", path, opened, content=STRATEGIC)

    def running():
        found = control_plane.api.get("Pod", "task", namespace)
        return found if found["status"]["phase"] == "Running" else None

    runs = eventually(running, "the pod runs once its gate is open")
    assert runs["spec"]["containers"] == made["spec"]["containers"]
    assert runs["metadata"]["annotations"] == made["metadata"]["annotations"]


def test_a_native_sidecar_starts_after_the_limiter_and_sees_no_gpu(create):
    sidecar = {"name": "mesh", "image": "example.com/mesh:1", "restartPolicy": "Always"}
    made = create(labelled_pod("task", "0.500", initContainers=[sidecar]))
    assert has_its_share(made)
    [limiter, mesh] = made["spec"]["initContainers"]
    assert (limiter["name"], mesh["name"]) == ("gpu-limiter", "mesh")
    assert "restartPolicy" not in limiter
    assert mesh["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


EXITED = {"operator": "In", "values": [42]}


@needs("HAS_RESTART_RULES")
@pytest.mark.parametrize(
    "action",
    ["Restart", pytest.param("RestartAllContainers", marks=needs("HAS_RESTART_OF_ALL_CONTAINERS"))],
)
def test_restart_rules_of_the_gpu_container_stay(create, action):
    rules = [{"action": action, "exitCodes": EXITED}]
    pod = labelled_pod("task", "0.500", restartPolicy="Never")
    pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": rules}
    made = create(pod)
    assert made["spec"]["containers"][0]["restartPolicyRules"] == rules
    assert has_its_share(made)


@needs("HAS_RESTART_RULES")
def test_a_regular_container_that_always_starts_again_is_no_sidecar(create):
    pod = labelled_pod("task", "0.500", restartPolicy="Never")
    other = {"name": "metrics", "image": "example.com/metrics:1", "restartPolicy": "Always"}
    pod["spec"]["containers"].append(other)
    made = create(pod)
    assert has_its_share(made)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in made["spec"]["containers"][1]["env"]
