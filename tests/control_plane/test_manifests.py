"""Every manifest of the fixtures through kubectl, the API server and the product's webhook, read back."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import SHOWS_NULL_CREATION_TIMESTAMP
from testbed.process import eventually
from testbed.registration import LABEL

FIXTURES = Path(__file__).parents[1] / "fixtures"
MANIFESTS = {file.stem: file for file in sorted((FIXTURES / "manifests").glob("*.yaml"))}
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["pods"]
INVENTORY = {
    "gpu-0": GpuNode(gpus=2, memory_mib=81920, product="A100-SXM4-80GB"),
    "gpu-1": GpuNode(gpus=8, memory_mib=81920, product="NVIDIA-H100-80GB-HBM3"),
    "gpu-2": GpuNode(gpus=4, memory_mib=40960, product="NVIDIA-A100-SXM4-40GB"),
    "gpu-3": GpuNode(gpus=1, memory_mib=23028, product="NVIDIA-A10"),
}
ALLOWED = [name for name in MANIFESTS if EXPECTED[name]["allowed"]]
DENIED = [name for name in MANIFESTS if not EXPECTED[name]["allowed"]]
PODS = [name for name in ALLOWED if yaml.safe_load(MANIFESTS[name].read_text())["kind"] == "Pod"]
WORKLOADS = ["bare", *(name for name in ALLOWED if name not in PODS)]
"""A pod, and all that has controllers make pods: these are created, the other pods only in dry runs."""
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
PREFIX = 'admission webhook "fractions.clearml-injector.io" denied the request: '


@pytest.fixture
def recorded(nodes, webhook):
    """The product's webhook, fresh, on the fixtures' nodes."""
    nodes(*INVENTORY.values(), names=tuple(INVENTORY))
    return webhook(recorded=True)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_stored_pod_is_what_explain_makes_of_the_same_review(
    name, recorded, kubectl, control_plane, namespace
):
    manifest = manifest_of(name)
    answer = kubectl("apply", f"--filename={MANIFESTS[name]}")
    assert (answer.code, answer.stdout, answer.stderr) == (0, created(manifest), "")

    def stored():
        return control_plane.api.list("Pod", namespace, labels=f"fixture={fixture_of(manifest)}")

    [pod] = eventually(stored, "the pod is stored")
    assert problems_of(name, pod, recorded, recorded.real_reviews()) == []
    assert pod["status"]["qosClass"] == unlabelled_qos(control_plane.api, manifest, namespace)


def test_each_pod_would_be_stored_as_explain_makes_it_of_the_same_review(recorded, control_plane, namespace):
    """One webhook reviews all of them: a dry run leaves nothing that the next could meet."""
    wrong, api = {}, control_plane.api
    for name in PODS:
        manifest, before = manifest_of(name), len(recorded.reviews)
        pod = api.create(manifest, namespace, dry_run=True)
        reviews = [each for each in recorded.reviews[before:] if each["request"]["kind"]["kind"] == "Pod"]
        found = problems_of(name, pod, recorded, reviews)
        if pod["status"]["qosClass"] != unlabelled_qos(api, manifest, namespace):
            found.append(f"QoS class {pod['status']['qosClass']}")
        if found:
            wrong[name] = found
    assert wrong == {}


def problems_of(name, pod, recorded, reviews):
    """What a stored pod lacks of what `explain` makes of its first review; later ones change nothing."""
    first, *again = reviews
    explanation = recorded.explain(first)
    assert explanation["allowed"]
    if SHOWS_NULL_CREATION_TIMESTAMP:
        assert explanation["pod"]["metadata"].pop("creationTimestamp") is None
    assert [recorded.explain(review)["patch"] for review in again] == [[]] * len(again)
    for field in ("container", "slices", "memoryMiB"):
        assert explanation[field] == EXPECTED[name].get(field, explanation[field])
    expected, found = without_token_mounts(explanation["pod"]), without_token_mounts(pod)
    return [lack for part in ("metadata", "spec") for lack in differences(expected[part], found[part])]


def test_a_denial_is_one_line_for_the_user(recorded, kubectl, control_plane, namespace):
    """One webhook reviews all of them: a denied pod leaves nothing that the next could meet."""
    for number, name in enumerate(DENIED, 1):
        answer = kubectl("apply", f"--filename={MANIFESTS[name]}")
        reviews = recorded.real_reviews()
        assert len(reviews) == number, name
        message = recorded.explain(reviews[-1])["message"]
        where = f'Error from server (Forbidden): error when creating "{MANIFESTS[name]}": '
        assert (answer.code, answer.stdout, answer.stderr) == (1, "", f"{where}{PREFIX}{message}\n")
        assert "\n" not in message
        assert 0 < len(message) <= 200
    assert control_plane.api.list("Pod", namespace) == []


def manifest_of(name):
    return yaml.safe_load(MANIFESTS[name].read_text())


def created(manifest):
    kind = {"Deployment": "deployment.apps", "Job": "job.batch", "Pod": "pod"}[manifest["kind"]]
    return f"{kind}/{manifest['metadata']['name']} created\n"


def template_of(manifest):
    return manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]


def fixture_of(manifest):
    return template_of(manifest)["metadata"]["labels"]["fixture"]


def without_token_mounts(pod):
    """A copy without the mount of the service account's token in init containers.

    The API server's own plugin adds it to the one that we bring, and asks us once more.
    """
    pod = copy.deepcopy(pod)
    for container in pod["spec"].get("initContainers", []):
        mounts = container.get("volumeMounts", [])
        container["volumeMounts"] = [m for m in mounts if m["mountPath"] != TOKEN_MOUNT]
    return pod


def differences(expected, found, path=""):
    """Where a stored object lacks what was expected of it; defaults that the server adds do not count."""
    if path == "/managedFields":
        return []
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{path}/{key} is missing" for key in expected if key not in found]
        shared = [key for key in expected if key in found]
        return missing + [
            d for key in shared for d in differences(expected[key], found[key], f"{path}/{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [d for i, (one, other) in pairs for d in differences(one, other, f"{path}/{i}")]
    return [] if expected == found else [f"{path}: {found!r} instead of {expected!r}"]


def unlabelled_qos(api, manifest, namespace):
    """The QoS class that the pod would have without us."""
    return api.create(unlabelled(manifest), namespace, dry_run=True)["status"]["qosClass"]


def unlabelled(manifest):
    """The manifest's pod as it would be written without us: no label, no resource that only we understand."""
    template = copy.deepcopy(template_of(manifest))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unlabelled"}, "spec": template["spec"]}
    pod["metadata"]["labels"] = template["metadata"]["labels"]
    del pod["metadata"]["labels"][LABEL]
    for container in pod["spec"]["containers"] + (pod["spec"].get("initContainers") or []):
        limits = container.get("resources", {}).get("limits", {})
        for resource in [name for name in limits if name.startswith("clear.ml/")]:
            del limits[resource]
    return pod
