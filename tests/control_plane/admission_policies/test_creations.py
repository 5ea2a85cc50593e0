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
    create_as_node,
    is_allowed,
    labelled_asking,
    refused,
    takes_devices,
    unlabelled_pod,
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


def test_of_gpus_an_unlabelled_pod_asks_for_all_but_slices_of_one(lock, control_plane):
    for where in ("containers", "initContainers"):
        for resource in ("nvidia.com/gpu-0", "nvidia.com/gpu-17"):
            with refused("unlabelled", NEEDS_LABEL):
                dry(control_plane, asking(resource, where))
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"):
        assert dry(control_plane, asking(resource))["spec"]["containers"][1]["name"] == "asks"


def dry(control_plane, pod, namespace="lock-default"):
    return control_plane.api.create(pod, namespace, dry_run=True)


GIVE_DEVICES = (
    "nvidia.cdi.k8s.io",
    "nvidia.cdi.k8s.io/container.unlabelled",
    "cdi.k8s.io/all",
    "cdi.nri.io/pod",
    "devices.nri.io",
    "cdi-devices.nri.io/pod",
    "devices.noderesource.dev/pod",
    "cdi-devices.noderesource.dev",
)
GIVE_NONE = (
    "nvidia.cdi.k8s.iox/pod",
    "example.com/nvidia.cdi.k8s.io",
    "memory-type.resource-policy.nri.io/pod",
    "devices.gke.io/container.unlabelled",
    "io.kubernetes.cri-o.Devices",
)


def test_an_unlabelled_pod_may_not_take_devices_by_an_annotation(lock, control_plane):
    for annotation in GIVE_DEVICES:
        with refused("device-annotations", takes_devices(annotation)):
            dry(control_plane, annotated_pod(annotation))
    with pytest.raises(ApiError, match=r"limit requests a share as KAI did before 0\.18: use the"):
        dry(control_plane, annotated_pod("nvidia.cdi.k8s.io/x.gpu-memory.limit"))
    for annotation in GIVE_NONE:
        dry(control_plane, annotated_pod(annotation))
    for where in (OWN_NAMESPACE, "kube-system", DEVICES):
        dry(control_plane, annotated_pod("nvidia.cdi.k8s.io"), where)


FREE = {
    OWN_NAMESPACE: [labelled_pod("free"), asking("nvidia.com/gpu-0"), labelled_asking("nvidia.com/gpu-0")],
    "kube-system": [labelled_pod("free"), asking("nvidia.com/gpu-0")],
    TRUSTED: [labelled_asking("nvidia.com/gpu-0")],
}


@pytest.mark.parametrize("where", FREE)
def test_namespaces_that_are_excluded_or_that_the_admin_trusts_are_left_alone(lock, control_plane, where):
    for pod in FREE[where]:
        assert INJECTED not in dry(control_plane, pod, where)["metadata"].get("annotations", {})


@pytest.mark.parametrize("where", UNSERVED)
def test_a_labelled_pod_may_not_ask_for_one_gpus_slices_where_the_webhook_does_not_serve(
    lock, control_plane, where
):
    message = (
        f"clearml-injector/fraction: namespace {where} is not served, its pods would get no limit: use"
        " another, or remove the slices"
    )
    of_memory = labelled_asking("nvidia.com/gpu-0")
    of_memory["metadata"]["labels"] = {"clearml-injector/gpu-memory": "4Gi"}
    with refused("unserved", message):
        dry(control_plane, labelled_asking("nvidia.com/gpu-0"), where)
    with pytest.raises(ApiError, match="is not served, its pods would get no limit"):
        dry(control_plane, of_memory, where)
    dry(control_plane, labelled_pod("free"), where)
    dry(control_plane, labelled_asking("nvidia.com/gpu"), where)


def test_another_namespaces_pod_may_not_take_the_injectors_priority(lock, control_plane, namespace):
    pod = unlabelled_pod(priorityClassName=RELEASE)
    message = f"priorityClassName {RELEASE} is for the injector's own pods: remove it or use another class"
    with refused("priority-class", message):
        control_plane.api.create(pod, namespace)
    assert control_plane.api.create(pod, OWN_NAMESPACE, dry_run=True)["spec"]["priority"] == 1000000000
    other = unlabelled_pod(priorityClassName="system-cluster-critical")
    assert is_allowed(control_plane.api, other, namespace)


def test_what_the_webhook_makes_of_every_kind_of_pod_passes(lock, control_plane):
    for name in ALLOWED:
        manifest = yaml.safe_load((FIXTURES / "manifests" / f"{name}.yaml").read_text())
        template = manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]
        spec = {"restartPolicy": "Never", **template["spec"]}
        for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
            container.setdefault("resources", {}).setdefault("limits", {}).pop("clear.ml/fraction-1", None)
        metadata = {**template["metadata"], "name": "pod"}
        made = dry(control_plane, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        slices = made["metadata"]["annotations"]["clearml-injector/slices"]
        assert slices == str(EXPECTED[name]["slices"]), name


SIDECAR = {"name": "side", "image": "example.com/side:1", "restartPolicy": "Always"}
MEMORY = [asking_for_memory("700Mi"), asking_for_memory("20Gi")]


def fractions(*texts, **amounts):
    """Pods that ask for fractions, and what their container asks for besides."""
    pods = [labelled_pod("pod", text) for text in texts]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"] = {"limits": amounts}
    return pods


def on(node, *pods):
    return [
        {**pod, "spec": {**pod["spec"], "nodeSelector": {"kubernetes.io/hostname": node}}} for pod in pods
    ]


def with_sidecar(fraction, **annotations):
    pod = labelled_pod("pod", fraction, initContainers=[SIDECAR])
    pod["metadata"]["annotations"] = {f"clearml-injector/{name}": text for name, text in annotations.items()}
    return pod


def with_one_that_asks_for_none(where):
    """A pod of which another container asks for no GPU in words."""
    [pod] = fractions("0.500", **{"nvidia.com/gpu": "1"})
    none = {**pod["spec"]["containers"][0], "name": "none", "resources": {"limits": {"nvidia.com/gpu": "0"}}}
    pod["spec"].setdefault(where, []).append(none)
    return pod


INSTANCES = [
    *fractions("0.125", "0.750", **{"nvidia.com/mig-2g.20gb": "0"}),
    *on("lock-3g.40gb", *fractions("0.375")),
    *on("lock-7g.80gb", *fractions("1.000")),
    with_sidecar("0.125", container="side"),
]
PASSING = {
    "default": [
        *[*fractions("0.875"), *MEMORY, with_one_that_asks_for_none("containers")],
        with_sidecar("0.500", container="side"),
        with_sidecar("0.500", containers="pod=0.250,side=0.250"),
    ],
    "whole": fractions("0.25", "1.000", "2.0", "3", "0.95"),
    "pooled": [
        *[*fractions("0.375"), *MEMORY, with_one_that_asks_for_none("initContainers")],
        with_sidecar("0.500", container="side"),
    ],
    "mig": [*fractions("0.375"), *on("lock-mig", MEMORY[1]), *INSTANCES],
    "both": [*INSTANCES, *on("gpu-1", *fractions("0.125", "0.750", "1.000"))],
    "either": [*INSTANCES, *on("lock-pooled", *fractions("0.125", "0.750", "1.000"))],
    "late": INSTANCES,
    "driver": [*fractions("0.250"), *MEMORY],
    "quarters": [*fractions("0.750"), *MEMORY],
    "open": [*fractions("0.125"), *MEMORY],
    "custom": [*fractions("0.625"), *MEMORY],
    "apart": [with_sidecar("0.500", containers="side=0.125,pod=0.375")],
}
"""Pods by policy; what each gets is shown without an API server."""


@pytest.mark.parametrize("policy", PASSING)
def test_what_the_webhook_makes_under_every_policy_passes(lock, control_plane, policy):
    for pod in PASSING[policy]:
        notes = dry(control_plane, pod, f"lock-{policy}")["metadata"]["annotations"]
        assert notes["clearml-injector/injected"].startswith(f"{policy}@")


def test_a_queue_with_a_limiter_and_a_table_of_its_own_passes_and_one_without_shares(lock, control_plane):
    pod = labelled_pod("queued", "0.50")
    pod["metadata"]["labels"]["clearml-agent-queue-name"] = "trusted"
    made = dry(control_plane, pod, "lock-queue")
    assert made["metadata"]["annotations"]["clearml-injector/slices"] == "4"
    assert "env" not in made["spec"]["containers"][0]
    pod["metadata"]["labels"]["clearml-agent-queue-name"] = "services"
    stored = dry(control_plane, pod)
    assert LABEL not in stored["metadata"]["labels"]
    assert stored["metadata"]["annotations"]["clearml-injector/no-share"] == "services"


def limits_of(pod):
    [limits] = [each["resources"]["limits"] for each in pod["spec"]["containers"]]
    return limits


def asking_in(limits, **annotations):
    """An unlabelled pod that asks in words of another system."""
    pod = unlabelled_pod("foreign")
    pod["metadata"]["annotations"] = {name.replace("_", "-"): text for name, text in annotations.items()}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return pod


FOREIGN = {
    "KAI": asking_in({}, gpu_fraction="0.25", gpu_fraction_num_devices="2"),
    "HAMi": asking_in({"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "25"}),
}


@pytest.mark.parametrize("pod", FOREIGN.values(), ids=FOREIGN)
def test_pods_in_other_systems_words_get_two_quarters_where_a_policy_takes_them(lock, control_plane, pod):
    made = dry(control_plane, pod, "lock-foreign")
    assert made["metadata"]["labels"][LABEL] == "0.250"
    limits = limits_of(made)
    assert list(limits.values()) == ["2", "2"]
    assert all(name.startswith("nvidia.com/gpu-") for name in limits)
    assert LABEL not in dry(control_plane, pod)["metadata"].get("labels", {})


def test_the_webhook_is_asked_about_each_of_their_words(lock, control_plane):
    pod = unlabelled_pod("hami-init")
    asks = {"limits": {"nvidia.com/gpumem": "4096"}}
    pod["spec"]["initContainers"] = [{"name": "warm", "image": "example.com/task:1", "resources": asks}]
    with pytest.raises(ApiError, match=r"only init containers request nvidia\.com/gpumem"):
        dry(control_plane, pod, "lock-foreign")
    of_x = "nvidia.com/container.x.gpu-memory.limit", "nvidia.cdi.k8s.io/x.gpu-memory.limit"
    for annotation in ("gpu-memory-limit", "mig-profile", *of_x):
        pod = unlabelled_pod("of-kai")
        pod["metadata"]["annotations"] = {annotation: "4096"}
        with pytest.raises(ApiError, match=f"{annotation} (needs|is not|names|is of)"):
            dry(control_plane, pod, "lock-foreign")


def mirror(pod, node):
    """A static pod as its kubelet shows it to the API server."""
    pod["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "0123",
        "kubernetes.io/config.hash": "0123",
    }
    pod["spec"]["nodeName"] = node
    return pod


@pytest.mark.parametrize("where", ["forged-default", "kube-system"])
@pytest.mark.parametrize("make", [asking, labelled_asking], ids=["unlabelled", "labelled"])
def test_the_mirror_of_a_static_pod_is_never_refused(no_webhook, control_plane, make, where):
    # Static pods run already when their kubelet shows them to the API server.
    pod = mirror(make("nvidia.com/gpu-0"), "gpu-0")
    pod["spec"]["priorityClassName"] = RELEASE
    made = create_as_node(control_plane, pod, where)
    assert (made.code, made.stderr) == (0, "")
    control_plane.api.delete("Pod", pod["metadata"]["name"], where)


def test_the_annotation_of_a_mirror_pod_frees_nobody_else(lock, control_plane, namespace):
    with refused("unlabelled", NEEDS_LABEL):
        control_plane.api.create(mirror(asking("nvidia.com/gpu-0"), "gpu-0"), namespace)
    plain = asking("nvidia.com/gpu-0")
    plain["spec"]["nodeName"] = "gpu-0"
    made = create_as_node(control_plane, plain, namespace)
    assert (made.code, NEEDS_LABEL in made.stderr) == (1, True)
