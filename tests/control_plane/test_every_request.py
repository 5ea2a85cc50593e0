"""Every request in every mode on every kind of card, through one webhook and a real API server."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from testbed.api import Api, ApiError
from testbed.gpu_nodes import GpuNode
from tests.request_table import (
    CARDS,
    MIG_POLICY,
    POLICY,
    InstanceRequest,
    Request,
    every_instance_request,
    every_request,
    instance_nodes,
)

QUEUE = "clearml-agent-queue-name"
POOL = "pool-of-gpus"
INSTANCES = "mig-instances"
OF_POLICY = "{policy: %s, namespaces: [NAMESPACE]}"
POLICIES = "\n---\n".join(
    [
        POLICY.replace("NAME", "default").replace("MODE", "per-gpu"),
        POLICY.replace("NAME", "pool").replace("MODE", "pooled"),
        MIG_POLICY.replace("NAME", "mig"),
        f"kind: Queues\nqueues: {{{POOL}: {OF_POLICY % 'pool'}, {INSTANCES}: {OF_POLICY % 'mig'}}}\n",
    ]
)
PRODUCT = "nvidia.com/gpu.product"
OURS = "clearml-injector/"


def test_every_request_gets_its_row_of_the_table(webhook, nodes, control_plane, namespace, tmp_path):
    cards = [(kind, mib, pooled) for kind, mib in CARDS.items() for pooled in (False, True)]
    nodes(*(GpuNode(gpus=2, memory_mib=mib, product=kind, pooled=pooled) for kind, mib, pooled in cards))
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text(POLICIES.replace("NAMESPACE", namespace))
    webhook(policies)
    requests = list(every_request())
    assert len(requests) > 150
    wrong = {
        str(request): found
        for request in requests
        if (found := list(differences(request, stored(control_plane.api, namespace, request))))
    }
    assert wrong == {}


def test_every_request_in_mode_mig_gets_its_row(webhook, nodes, control_plane, namespace, tmp_path):
    nodes(*(GpuNode(gpus=0, product=kind, instances=amounts) for kind, amounts in instance_nodes()))
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text(POLICIES.replace("NAMESPACE", namespace))
    webhook(policies)
    wrong = {
        str(request): found
        for request in every_instance_request()
        if (found := list(other_instance(request, stored(control_plane.api, namespace, request))))
    }
    assert wrong == {}


LEAST = {"16Gi": 16384, "20Gi": 20480, "24Gi": 24576, "30Gi": 30720, "40Gi": 40960, "80Gi": 81920}


def test_memory_of_gpus_of_a_least_size_is_given_although_reviews_come_twice(
    webhook, nodes, control_plane, namespace, tmp_path
):
    nodes(*(GpuNode(gpus=2, memory_mib=mib, product=kind) for kind, mib in CARDS.items()))
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text(POLICY.replace("NAME", "default").replace("MODE", "per-gpu"))
    webhook(policies)
    for memory, (least, mib) in product(("4Gi", "15000Mi", "20Gi"), LEAST.items()):
        said = {f"{OURS}min-gpu-memory": least}
        metadata = {"name": "asks", "labels": {f"{OURS}gpu-memory": memory}, "annotations": said}
        spec = {"containers": [{"name": "train", "image": "example.com/task:1"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        found = control_plane.api.create(pod, namespace, dry_run=True)
        notes = found["metadata"]["annotations"]
        assert notes[f"{OURS}memory-mib"] == str(whole_mib(memory))
        assert memory_values(found) <= {each for each in CARDS.values() if each >= mib}, (memory, least)
        # As it comes back when another webhook changed it: this review changes nothing.
        again = control_plane.api.create({**pod, **as_patched(found)}, namespace, dry_run=True)
        assert again["spec"]["affinity"] == found["spec"]["affinity"]
        assert again["metadata"]["annotations"] == notes


def as_patched(found: dict[str, Any]) -> dict[str, Any]:
    """A pod as it was patched, as another creation takes it."""
    metadata = {name: found["metadata"][name] for name in ("name", "labels", "annotations")}
    return {"metadata": metadata, "spec": found["spec"]}


def whole_mib(text: str) -> int:
    return int(text[:-2]) * (1024 if text.endswith("Gi") else 1)


def memory_values(pod: dict[str, Any]) -> set[int]:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    values = [each["values"] for each in term["matchExpressions"] if each["key"] == "nvidia.com/gpu.memory"]
    return set.intersection(*({int(value) for value in each} for each in values))


def other_instance(request: InstanceRequest, found: dict[str, Any] | str) -> Iterator[str]:
    """What a pod has that its row does not say."""
    if isinstance(found, str) or request.profile is None:
        is_denied = isinstance(found, str) and 'admission webhook "fractions.' in found
        if request.profile is not None or not is_denied:
            yield str(found)[:300]
        return
    said = {name for name in found["metadata"]["annotations"] if name.startswith(OURS)}
    if found["metadata"]["annotations"][f"{OURS}slices"] != str(request.eighths):
        yield f"slices are not {request.eighths}: {found['metadata']['annotations']}"
    if said & {f"{OURS}gpu-index", f"{OURS}memory-mib"}:
        yield f"the annotations are {said}"
    (task,) = found["spec"]["containers"]
    if gpus_of(task, "nvidia.com/") != {request.resource: "1"}:
        yield f"the limits are {task['resources']}"
    required = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    bound = [each["values"] for each in term["matchExpressions"] if each["key"] == PRODUCT]
    if len(bound) != 1 or request.product not in bound[0]:
        yield f"the affinity is {term}"


def stored(api: Api, namespace: str, request: Request | InstanceRequest) -> dict[str, Any] | str:
    """The pod as the API server would store it, or the line that denies it."""
    annotations = dict(request.annotations)
    names = ["train", "eval"] if OURS + "containers" in annotations else ["train"]
    labels = dict([request.label])
    if isinstance(request, InstanceRequest):
        labels[QUEUE], kind = INSTANCES, request.product
    else:
        kind = request.kind
        labels |= {QUEUE: POOL} if request.mode == "pooled" else {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks", "labels": labels, "annotations": annotations},
        "spec": {
            "nodeSelector": {PRODUCT: kind},
            "containers": [{"name": name, "image": "example.com/task:1"} for name in names],
        },
    }
    try:
        return dict(api.create(pod, namespace, dry_run=True))
    except ApiError as error:
        return str(error)


def differences(request: Request, found: dict[str, Any] | str) -> Iterator[str]:
    """What a pod has that its row does not say."""
    if isinstance(found, str) or request.row is None:
        is_denied = isinstance(found, str) and 'admission webhook "fractions.' in found
        if request.row is not None or not is_denied:
            yield str(found)[:300]
        return
    slices, mib = request.row
    said = found["metadata"]["annotations"]
    wanted = {
        "slices": str(slices),
        "memory-mib": None if mib is None else str(mib),
        "gpu-index": ",".join(map(str, request.indices)) or None,
    }
    for name, text in wanted.items():
        if said.get(OURS + name) != text:
            yield f"{name} is {said.get(OURS + name)}, not {text}"
    amounts = [amount for each in found["spec"]["containers"] for amount in gpus_of(each).items()]
    if sum(int(amount) for _, amount in amounts) != slices:
        yield f"the limits come to {amounts}"
    names = {f"nvidia.com/gpu-{index}" for index in request.indices} or {"nvidia.com/gpu"}
    if {name for name, _ in amounts} != names:
        yield f"the limits are of {amounts}"


def gpus_of(container: dict[str, Any], prefix: str = "nvidia.com/gpu") -> dict[str, str]:
    limits = container.get("resources", {}).get("limits", {})
    return {name: amount for name, amount in limits.items() if name.startswith(prefix)}
