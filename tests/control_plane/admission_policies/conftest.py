"""The chart's second lock in effect on a real API server, with a real webhook process behind it."""

from pathlib import Path

import pytest

from testbed.chart import ADMISSION, CONFIGURATION, RELEASE, Helm, elsewhere
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from testbed.product import Setup, mounted, passes_by
from testbed.registration import OWN_NAMESPACE, asking_for_memory, labelled_pod, probe
from tests.control_plane.admission_policies.support import (
    KINDS,
    LABELLED,
    NAMESPACES,
    NODES,
    OLD,
    VALUES,
    WEBHOOK,
    annotated_pod,
    in_effect,
    lock_in_effect,
    unlabelled_pod,
    workload,
)

HERE = Path(__file__).parent
UNREVIEWED = {"name": "unreviewed", "expression": "!request.namespace.startsWith('forged-')"}
"""Of the live webhook only: to the second lock these namespaces are as others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.oldest_kubernetes)  # CEL grows with each release


@pytest.fixture(scope="package")
def old_pod(control_plane):
    """A labelled pod from before the install: never injected, held by a finalizer; and labelled workloads."""
    # Files of other folders may have run since the package was left, and it is made again.
    eventually(
        lambda: not control_plane.api.exists("Namespace", OLD), "the namespace of the last time is gone"
    )
    control_plane.create_namespace(OLD)
    for kind in KINDS:
        control_plane.api.create(workload(kind, LABELLED, {}), OLD)
    pod = labelled_pod("old")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    yield control_plane.api.create(pod, OLD)
    for found in control_plane.api.list("Pod", OLD):
        control_plane.api.patch("Pod", found["metadata"]["name"], {"metadata": {"finalizers": None}}, OLD)
    control_plane.api.delete("Namespace", OLD)


@pytest.fixture(scope="package")
def old_device_pod(control_plane, old_pod):
    """An unlabelled pod from before the install, with devices by an annotation."""
    return control_plane.api.create(
        annotated_pod("nvidia.cdi.k8s.io", "devices", schedulerName="nobody"), OLD
    )


@pytest.fixture(scope="package")
def nodes_and_namespaces(control_plane):
    """Nodes of every mode, and a namespace for each policy."""
    for node in NODES.values():
        control_plane.api.create(node)
    wanted = {**NAMESPACES, OWN_NAMESPACE: {}}
    for name, labels in wanted.items():
        if not control_plane.takes_pods(name):
            metadata = {"name": name, "labels": labels}
            control_plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for name in wanted:
        eventually(lambda name=name: control_plane.takes_pods(name), f"{name} takes pods")
    yield
    for name in NODES:
        control_plane.api.delete("Node", name)


@pytest.fixture(scope="package")
def product(control_plane, nodes_and_namespaces, tmp_path_factory):
    """A webhook process that follows the very policies of the chart's ConfigMap."""
    folder = tmp_path_factory.mktemp("second-lock")
    inventory = folder / "inventory.yaml"
    inventory.write_text(control_plane.kubectl("get", "nodes", "--output=yaml").stdout)
    product = mounted(Setup(mounted_policies(Helm(control_plane, folder), folder), inventory), folder)
    yield product
    product.stop()


@pytest.fixture(scope="package")
def values(product):
    outside = elsewhere(product)
    return {**VALUES, **outside, "webhook": {**WEBHOOK, **outside["webhook"]}}


def mounted_policies(helm, folder):
    """The chart's ConfigMap as the kubelet would mount it."""
    directory = folder / "policies"
    directory.mkdir()
    for name, content in policy_files(helm, VALUES).items():
        (directory / name).write_text(content)
    return directory


def policy_files(helm, values):
    """What the chart puts into that ConfigMap, by name of the file."""
    [found] = [obj for obj in helm.rendered(values) if obj["metadata"]["name"] == f"{RELEASE}-policies"]
    return found["data"]


@pytest.fixture(scope="package")
def lock(control_plane, old_pod, old_device_pod, values, tmp_path_factory):
    """Install the chart and wait until webhook and lock are in effect."""
    helm = Helm(control_plane, tmp_path_factory.mktemp("helm"))
    helm.apply(values)
    eventually(lambda: in_effect(control_plane.api), "webhook and lock take effect")
    yield
    helm.uninstall()
    eventually(lambda: passes_by(probe(control_plane.api, OLD)), "the webhook is out of effect")
    eventually(lambda: not lock_in_effect(control_plane.api), "the lock is out of effect")


@pytest.fixture
def injected(lock, control_plane, namespace):
    return control_plane.api.create(labelled_pod("injected", "0.500"), namespace)


@pytest.fixture
def unlabelled(lock, control_plane, namespace):
    """A pod that we have nothing to do with; never scheduled, for a running one takes no resize."""
    return control_plane.api.create(unlabelled_pod(schedulerName="nobody"), namespace)


@pytest.fixture(scope="module")
def no_webhook(lock, control_plane):
    """What the webhook makes of a pod of each policy, for a namespace of that policy without a webhook."""
    api = control_plane.api
    if UNREVIEWED not in api.get(CONFIGURATION, RELEASE, api=ADMISSION)["webhooks"][0]["matchConditions"]:
        change = [{"op": "add", "path": "/webhooks/0/matchConditions/-", "value": UNREVIEWED}]
        path = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{RELEASE}"
        api.call("PATCH", path, change, content="application/json-patch+json")
    eventually(lambda: passes_by(probe(api, "forged-default")), "the webhook does not review there")
    wanted = {
        "half": (labelled_pod("half", "0.500"), "default"),
        "halves": (on_gpus(labelled_pod("halves", "0.500"), 2), "default"),
        "shared": (sharing(labelled_pod("shared", "0.750")), "default"),
        "shared-memory": (sharing(asking_for_memory("6Gi"), "train=4Gi,eval=2Gi"), "default"),
        "apart": (sharing(asking_for_memory("100Gi"), "train=60Gi,eval=40Gi"), "apart"),
        "two": (labelled_pod("two", "2.0"), "whole"),
        "memory": (asking_for_memory("4Gi"), "default"),
        "most": (labelled_pod("most", "0.95"), "whole"),
        "pooled": (labelled_pod("pooled", "0.250"), "pooled"),
        "mig": (labelled_pod("mig", "0.375"), "mig"),
        "both": (labelled_pod("both", "0.125"), "both"),
        "either": (labelled_pod("either", "0.125"), "either"),
        "late": (labelled_pod("late", "0.125"), "late"),
        "driver": (labelled_pod("driver", "0.250"), "driver"),
        "custom": (labelled_pod("custom", "0.250"), "custom"),
    }
    if HAS_RESOURCE_CLAIMS:
        wanted["claimed"] = (labelled_pod("claimed", "0.500"), "claimed")
        wanted["claimed-parts"] = (sharing(labelled_pod("parts", "0.750")), "claimed")
    pods = {name: created(api, pod, f"lock-{policy}") for name, (pod, policy) in wanted.items()}
    for name, (_, policy) in wanted.items():
        pods[name]["metadata"]["namespace"] = f"forged-{policy}"
    return pods


def sharing(pod, parts="train=0.500,eval=0.250"):
    """The pod with two containers that share its part, and an init container that asks for a GPU before."""
    pod["metadata"]["annotations"] = {"clearml-injector/containers": parts}
    asks = {"name": "warm", "image": "example.com/task:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod["spec"]["containers"] = [{"name": name, "image": "example.com/task:1"} for name in ("train", "eval")]
    pod["spec"]["initContainers"] = [asks]
    return pod


def on_gpus(pod, gpus):
    """The pod, asking its share of each of several GPUs."""
    pod["metadata"]["annotations"] = {"clearml-injector/gpus": str(gpus)}
    return pod


def created(api, pod, namespace):
    """A pod as the webhook would have it, to be created again."""
    made = api.create(pod, namespace, dry_run=True)
    kept = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": made["spec"]}
