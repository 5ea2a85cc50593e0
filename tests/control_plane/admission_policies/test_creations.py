"""Ways around the webhook that create a pod without it, and creations that must pass."""

import json
from pathlib import Path

import pytest
import yaml

from testbed.admission_server import AdmissionServer, patching
from testbed.api import ApiError
from testbed.chart import ADMISSION, CONFIGURATION, RELEASE
from testbed.process import eventually
from testbed.product import INJECTED
from testbed.registration import LABEL, OWN_NAMESPACE, asking_for_memory, configuration, labelled_pod
from tests.control_plane.admission_policies.support import (
    DEVICES,
    TRUSTED,
    UNSERVED,
    annotated_pod,
    asking,
    is_allowed,
    labelled_asking,
    refused,
    takes_devices,
    unlabelled_pod,
    workload,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["pods"]
ALLOWED = [name for name in sorted(EXPECTED) if EXPECTED[name]["allowed"]]
NOT_INJECTED = (
    "clearml-injector/fraction: the pod was not injected: its label was added too late, or the webhook is"
    " missing; label the pod before it is created, and if it was, tell your admin"
)
NEEDS_LABEL = (
    "slices of one GPU are for pods with the label clearml-injector/fraction: set the label and remove"
    " the resource, whose index the injector chooses"
)


@pytest.fixture
def later_webhook(lock, control_plane, namespace):
    """A webhook that comes after ours and labels what asks for it; give a pod that does."""
    pod = unlabelled_pod("late")
    pod["metadata"]["labels"] = {"late": "yes"}
    add_label = {"op": "add", "path": "/metadata/labels", "value": {LABEL: "0.500"}}
    with AdmissionServer(patching(lambda _: [add_label])) as server:
        selector = {"matchLabels": {"late": "yes"}}
        control_plane.api.create(
            configuration("zz-labels", server.url, server.ca_pem, objectSelector=selector, matchConditions=[])
        )
        eventually(lambda: not is_allowed(control_plane.api, pod, namespace), "the later webhook labels pods")
        yield pod
        control_plane.api.delete(CONFIGURATION, "zz-labels", api=ADMISSION)


def test_a_label_that_a_later_webhook_adds_is_refused(later_webhook, control_plane, namespace):
    with refused("injected", NOT_INJECTED):
        control_plane.api.create(later_webhook, namespace)


@pytest.mark.parametrize("containers", ["containers", "initContainers"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu-0", "nvidia.com/gpu-17"])
def test_an_unlabelled_pod_may_not_ask_for_one_gpus_slices(
    lock, control_plane, namespace, resource, containers
):
    with refused("unlabelled", NEEDS_LABEL):
        control_plane.api.create(asking(resource, containers), namespace)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_unlabelled_pods_ask_for_other_gpus_as_ever(lock, control_plane, namespace, resource):
    assert control_plane.api.create(asking(resource), namespace)["spec"]["containers"][1]["name"] == "asks"


TAKING_DEVICES = [
    "nvidia.cdi.k8s.io",
    "nvidia.cdi.k8s.io/pod",
    "nvidia.cdi.k8s.io/container.unlabelled",
    "cdi.k8s.io/all",
    "cdi.nri.io/pod",
    "devices.nri.io",
    "cdi-devices.nri.io/pod",
    "devices.noderesource.dev/pod",
    "cdi-devices.noderesource.dev",
]


@pytest.mark.parametrize("annotation", TAKING_DEVICES)
def test_an_unlabelled_pod_may_not_take_devices_by_an_annotation(lock, control_plane, namespace, annotation):
    with refused("device-annotations", takes_devices(annotation)):
        control_plane.api.create(annotated_pod(annotation), namespace)


@pytest.mark.parametrize("where", [OWN_NAMESPACE, "kube-system", DEVICES])
def test_annotations_take_devices_where_the_admin_says_so(lock, control_plane, where):
    assert is_allowed(control_plane.api, annotated_pod("nvidia.cdi.k8s.io"), where)


@pytest.mark.parametrize(
    "annotation",
    [
        "nvidia.cdi.k8s.iox/pod",
        "example.com/nvidia.cdi.k8s.io",
        "memory-type.resource-policy.nri.io/pod",
        "devices.gke.io/container.unlabelled",
        "io.kubernetes.cri-o.Devices",
    ],
)
def test_unlabelled_pods_have_all_other_annotations_as_ever(lock, control_plane, namespace, annotation):
    assert is_allowed(control_plane.api, annotated_pod(annotation), namespace)


@pytest.mark.parametrize("where", [OWN_NAMESPACE, "kube-system"])
def test_excluded_namespaces_are_left_alone(lock, control_plane, where):
    made = control_plane.api.create(labelled_pod("free"), where, dry_run=True)
    assert INJECTED not in made["metadata"].get("annotations", {})
    assert control_plane.api.create(asking("nvidia.com/gpu-0"), where, dry_run=True)["spec"]["containers"]


@pytest.mark.parametrize("where", UNSERVED)
def test_a_labelled_pod_may_not_ask_for_one_gpus_slices_where_the_webhook_does_not_serve(
    lock, control_plane, where
):
    message = (
        f"clearml-injector/fraction: namespace {where} is not served, its pods would get no limit: use"
        " another, or remove the slices"
    )
    with refused("unserved", message):
        control_plane.api.create(labelled_asking("nvidia.com/gpu-0"), where, dry_run=True)
    assert is_allowed(control_plane.api, labelled_pod("free"), where)
    assert is_allowed(control_plane.api, labelled_asking("nvidia.com/gpu"), where)


@pytest.mark.parametrize("where", [TRUSTED, OWN_NAMESPACE])
def test_labelled_pods_ask_for_slices_where_the_admin_says_so(lock, control_plane, where):
    made = control_plane.api.create(labelled_asking("nvidia.com/gpu-0"), where, dry_run=True)
    assert INJECTED not in made["metadata"].get("annotations", {})


def test_another_namespaces_pod_may_not_take_the_injectors_priority(lock, control_plane, namespace):
    pod = unlabelled_pod(priorityClassName=RELEASE)
    message = f"priorityClassName {RELEASE} is for the injector's own pods: remove it or use another class"
    with refused("priority-class", message):
        control_plane.api.create(pod, namespace)
    assert control_plane.api.create(pod, OWN_NAMESPACE, dry_run=True)["spec"]["priority"] == 1000000000
    other = unlabelled_pod(priorityClassName="system-cluster-critical")
    assert is_allowed(control_plane.api, other, namespace)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_webhook_makes_of_every_kind_of_pod_passes(lock, control_plane, namespace, name):
    manifest = yaml.safe_load((FIXTURES / "manifests" / f"{name}.yaml").read_text())
    template = manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]
    metadata = {**template["metadata"], "name": f"{manifest['metadata']['name']}-pod"}
    spec = {"restartPolicy": "Never", **template["spec"]}
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        container.setdefault("resources", {}).setdefault("limits", {}).pop("clear.ml/fraction-1", None)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    made = control_plane.api.create(pod, namespace, dry_run=True)
    assert made["metadata"]["annotations"]["clearml-injector/slices"] == str(EXPECTED[name]["slices"])


@pytest.mark.parametrize(
    ("policy", "fraction", "slices"),
    [
        ("default", "0.875", "7"),
        ("whole", "0.25", "2"),
        ("whole", "0.500", "4"),
        ("whole", "1.000", "8"),
        ("whole", "2.0", "16"),
        ("whole", "3", "24"),
        ("whole", "0.2", "2"),
        ("whole", "0.95", "8"),
        ("pooled", "0.375", "3"),
        ("mig", "0.125", "1"),
        ("both", "0.125", "1"),
        ("both", "0.750", "8"),
        ("either", "0.125", "1"),
        ("either", "0.750", "8"),
        ("mig", "0.375", "4"),
        ("driver", "0.250", "2"),
        ("quarters", "0.750", "3"),
        ("open", "0.125", "1"),
        ("custom", "0.625", "5"),
    ],
)
def test_what_the_webhook_makes_under_every_policy_passes(lock, control_plane, policy, fraction, slices):
    made = control_plane.api.create(labelled_pod("pod", fraction), f"lock-{policy}", dry_run=True)
    said = made["metadata"]["annotations"]
    assert said["clearml-injector/injected"].startswith(f"{policy}@")
    assert said["clearml-injector/slices"] == slices


@pytest.mark.parametrize("fraction", ["0.500", "0.50"])
def test_a_queue_with_a_limiter_and_a_table_of_its_own_passes(lock, control_plane, fraction):
    pod = labelled_pod("queued", fraction)
    pod["metadata"]["labels"]["clearml-agent-queue-name"] = "trusted"
    made = control_plane.api.create(pod, "lock-queue", dry_run=True)
    assert made["metadata"]["annotations"]["clearml-injector/slices"] == "4"
    assert "env" not in made["spec"]["containers"][0]


@pytest.mark.parametrize("policy", ["default", "pooled"])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_a_container_that_asks_for_no_gpu_in_words_holds_no_share(lock, control_plane, policy, containers):
    pod = labelled_pod("pod", "0.500")
    [task] = pod["spec"]["containers"]
    none = {**task, "name": "none", "resources": {"limits": {"nvidia.com/gpu": "0"}}}
    task["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    pod["spec"].setdefault(containers, []).append(none)
    made = control_plane.api.create(pod, f"lock-{policy}", dry_run=True)
    assert made["metadata"]["annotations"]["clearml-injector/gpu-container"] == task["name"]


SIDECAR = {"name": "side", "image": "example.com/side:1", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("policy", "annotations", "holders"),
    [
        ("default", {"clearml-injector/container": "side"}, ["side"]),
        ("pooled", {"clearml-injector/container": "side"}, ["side"]),
        ("mig", {"clearml-injector/container": "side"}, ["side"]),
        ("both", {"clearml-injector/container": "side"}, ["side"]),
        ("default", {"clearml-injector/containers": "pod=0.250,side=0.250"}, ["pod", "side"]),
        ("apart", {"clearml-injector/containers": "side=0.125,pod=0.375"}, ["side", "pod"]),
    ],
)
def test_a_native_sidecar_with_a_share_passes(lock, control_plane, policy, annotations, holders):
    pod = labelled_pod("pod", "0.500" if policy not in {"mig", "both"} else "0.125", initContainers=[SIDECAR])
    pod["metadata"]["annotations"] = annotations
    made = control_plane.api.create(pod, f"lock-{policy}", dry_run=True)
    assert made["metadata"]["annotations"]["clearml-injector/gpu-container"] == ",".join(holders)
    found = [*made["spec"]["containers"], *made["spec"]["initContainers"]]
    assert {each["name"] for each in found if "limits" in each.get("resources", {})} == {*holders}


def test_a_pod_of_many_containers_and_variables_is_within_what_the_api_server_computes(
    lock, control_plane, namespace
):
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 100} for number in range(100)]
    sidecars = [{"name": f"sidecar-{n}", "image": "example.com/sidecar:1", "env": env} for n in range(22)]
    pod = labelled_pod("large", "0.500")
    [task] = pod["spec"]["containers"]
    pod["spec"]["containers"] = [
        {**task, "env": env, "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        *sidecars,
    ]
    made = control_plane.api.create(pod, namespace, dry_run=True)
    assert made["metadata"]["annotations"]["clearml-injector/gpu-container"] == task["name"]


@pytest.mark.parametrize("policy", ["default", "pooled", "driver", "quarters", "open", "custom"])
@pytest.mark.parametrize(("memory", "mib"), [("4Gi", 4096), ("700Mi", 700), ("20Gi", 20480)])
def test_what_the_webhook_makes_of_an_ask_for_memory_passes(lock, control_plane, policy, memory, mib):
    made = control_plane.api.create(asking_for_memory(memory), f"lock-{policy}", dry_run=True)
    said = made["metadata"]["annotations"]
    assert said["clearml-injector/memory-mib"] == str(mib)
    [limits] = [each["resources"]["limits"] for each in made["spec"]["containers"]]
    assert said["clearml-injector/slices"] in limits.values()


@pytest.mark.parametrize("policy", ["mig", "both", "either"])
@pytest.mark.parametrize("profile", ["3g.40gb", "7g.80gb"])
def test_an_instance_of_strategy_single_passes(lock, control_plane, policy, profile):
    fraction, slices = {"3g.40gb": ("0.375", "4"), "7g.80gb": ("1.000", "8")}[profile]
    pod = labelled_pod("pod", fraction, nodeSelector={"kubernetes.io/hostname": f"lock-{profile}"})
    made = control_plane.api.create(pod, f"lock-{policy}", dry_run=True)
    [limits] = [each["resources"]["limits"] for each in made["spec"]["containers"]]
    assert limits == {"nvidia.com/gpu": "1"}
    assert made["metadata"]["annotations"]["clearml-injector/slices"] == slices


@pytest.mark.parametrize(("fraction", "slices"), [("0.125", "1"), ("0.750", "6"), ("1.000", "8")])
@pytest.mark.parametrize("policy", ["both", "either"])
def test_slices_pass_where_instances_are_preferred(lock, control_plane, policy, fraction, slices):
    node = {"both": "gpu-1", "either": "lock-pooled"}[policy]
    pod = labelled_pod("pod", fraction, nodeSelector={"kubernetes.io/hostname": node})
    [task] = pod["spec"]["containers"]
    task["resources"] = {"limits": {"nvidia.com/mig-2g.20gb": "0"}}
    made = control_plane.api.create(pod, f"lock-{policy}", dry_run=True)
    [limits] = [each["resources"]["limits"] for each in made["spec"]["containers"]]
    assert sorted(limits.values()) == ["0", slices]


@pytest.mark.parametrize("policy", ["mig", "both", "either"])
@pytest.mark.parametrize("fraction", ["0.125", "0.750"])
def test_none_of_another_profile_in_words_is_nothing(lock, control_plane, policy, fraction):
    pod = labelled_pod("pod", fraction)
    [task] = pod["spec"]["containers"]
    task["resources"] = {"limits": {"nvidia.com/mig-2g.20gb": "0"}}
    made = control_plane.api.create(pod, f"lock-{policy}", dry_run=True)
    [limits] = [each["resources"]["limits"] for each in made["spec"]["containers"]]
    assert limits.pop("nvidia.com/mig-2g.20gb") == "0"
    assert len(limits) == 1


def test_an_instance_for_an_ask_for_memory_passes(lock, control_plane):
    pod = asking_for_memory("20Gi")
    # Other nodes offer instances of that size as nvidia.com/gpu.
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "lock-mig"}
    made = control_plane.api.create(pod, "lock-mig", dry_run=True)
    [limits] = [each["resources"]["limits"] for each in made["spec"]["containers"]]
    assert limits["nvidia.com/mig-3g.40gb"] == "1"


def test_an_ask_for_memory_that_the_policy_does_not_take_is_denied_by_the_webhook(lock, control_plane):
    with pytest.raises(ApiError, match="is not a whole number of Mi or Gi"):
        control_plane.api.create(asking_for_memory("4G"), "lock-default", dry_run=True)
    with pytest.raises(ApiError, match="allows no memory amounts"):
        control_plane.api.create(asking_for_memory("4Gi"), "lock-whole", dry_run=True)


@pytest.mark.parametrize("where", UNSERVED)
def test_an_ask_for_memory_gets_no_slices_where_the_webhook_does_not_serve(lock, control_plane, where):
    pod = labelled_asking("nvidia.com/gpu-0")
    pod["metadata"]["labels"] = {"clearml-injector/gpu-memory": "4Gi"}
    with pytest.raises(ApiError, match="is not served, its pods would get no limit"):
        control_plane.api.create(pod, where, dry_run=True)


def test_a_workload_that_alone_asks_for_memory_is_refused(lock, control_plane, namespace):
    found = workload("Deployment", {"clearml-injector/gpu-memory": "4Gi"}, {})
    with pytest.raises(ApiError, match="gpu-memory is only on the Deployment"):
        control_plane.api.create(found, namespace, dry_run=True)


def in_kais_words():
    pod = unlabelled_pod("kai")
    pod["metadata"]["annotations"] = {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}
    return pod


def in_hamis_words():
    pod = unlabelled_pod("hami")
    amounts = {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "25"}
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts}
    return pod


@pytest.mark.parametrize("pod", [in_kais_words(), in_hamis_words()])
def test_pods_in_other_systems_words_get_two_quarters_where_a_policy_takes_them(lock, control_plane, pod):
    created = control_plane.api.create(pod, "lock-foreign", dry_run=True)
    assert created["metadata"]["labels"][LABEL] == "0.250"
    limits = created["spec"]["containers"][0]["resources"]["limits"]
    assert list(limits.values()) == ["2", "2"]
    assert all(name.startswith("nvidia.com/gpu-") for name in limits)
    assert INJECTED in created["metadata"]["annotations"]


def test_init_containers_in_hamis_words_are_seen_too(lock, control_plane):
    pod = unlabelled_pod("hami-init")
    pod["spec"]["initContainers"] = [
        {
            "name": "warm",
            "image": "example.com/task:1",
            "resources": {"limits": {"nvidia.com/gpumem": "4096"}},
        }
    ]
    with pytest.raises(
        ApiError, match=r"only init containers request nvidia\.com/gpumem: request it in a regular container"
    ):
        control_plane.api.create(pod, "lock-foreign", dry_run=True)
    amounts = {"nvidia.com/gpumem": "4096"}
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts}
    created = control_plane.api.create(pod, "lock-foreign", dry_run=True)
    [warm] = [each for each in created["spec"]["initContainers"] if each["name"] == "warm"]
    assert warm["resources"] == created["spec"]["containers"][0]["resources"]


def test_a_limit_of_run_ais_alone_is_seen_too(lock, control_plane):
    pod = unlabelled_pod("limited")
    pod["metadata"]["annotations"] = {"gpu-memory-limit": "4096"}
    with pytest.raises(ApiError, match="gpu-memory-limit needs gpu-memory"):
        control_plane.api.create(pod, "lock-foreign", dry_run=True)


@pytest.mark.parametrize("pod", [in_kais_words(), in_hamis_words()])
def test_elsewhere_they_stay_as_they_are(lock, control_plane, pod):
    created = control_plane.api.create(pod, "lock-default", dry_run=True)
    assert LABEL not in created["metadata"].get("labels", {})
    assert created["metadata"].get("annotations") == pod["metadata"].get("annotations")


@pytest.mark.parametrize("pod", [labelled_pod("controller", "0.500"), asking_for_memory("4Gi", "controller")])
def test_a_pod_of_a_queue_that_gives_no_share_passes_without_label_and_gpu(
    lock, control_plane, namespace, pod
):
    pod = {**pod, "metadata": {**pod["metadata"], "labels": dict(pod["metadata"]["labels"])}}
    pod["metadata"]["labels"]["clearml-agent-queue-name"] = "services"
    asks = {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}
    pod["spec"] = {**pod["spec"], "containers": [{**pod["spec"]["containers"][0], "resources": asks}]}
    stored = control_plane.api.create(pod, namespace)
    assert stored["metadata"]["labels"] == {"clearml-agent-queue-name": "services"}
    assert stored["metadata"]["annotations"]["clearml-injector/no-share"] == "services"
    [container] = stored["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
