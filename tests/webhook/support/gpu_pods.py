"""Pods that ask for more than a fraction of one GPU in one container, and what they were given."""

from ledger.ledger import Ledger
from tests.ledger.cluster import gpu_node
from tests.webhook.support import Webhook, container, pod

CONTAINERS = "clearml-injector/containers"
GPUS = "clearml-injector/gpus"
MEMORY = "clearml-injector/gpu-memory"
JOBS = {"group": "batch", "version": "v1", "resource": "jobs"}
_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"


def webhook_of(*facts, policy_set=None, holders=()):
    """A webhook whose ledger knows these nodes, and pods on them."""
    ledger = Ledger()
    ledger.replace(facts, holders)
    return Webhook(policy_set, ledger)


def pooled_node(name, gpus=2, mib=81920, **changes):
    known = {"gpus": (), "slices_per_gpu": 0, "pooled": 8 * gpus, "pooled_gpus": gpus}
    return gpu_node(name, mib=mib, **(known | changes))


def asking_memory(text, **fields):
    """A pod that asks for memory instead of a fraction."""
    return pod(fraction=None, labels={MEMORY: text}, **fields)


def on_gpus(gpus, fraction="0.500", **fields):
    """A pod that asks a share of each of several GPUs."""
    return pod(fraction=fraction, metadata={"annotations": {GPUS: gpus}}, **fields)


def sharing(text, asked, containers=None, annotations=None, **spec):
    """A pod whose containers share what its label asks for, a fraction or memory."""
    made = [container("train"), container("eval"), container("proxy")] if containers is None else containers
    said = {"annotations": {CONTAINERS: text, **(annotations or {})}}
    if asked.endswith("i"):
        return asking_memory(asked, containers=made, metadata={**said, "labels": {MEMORY: asked}}, **spec)
    return pod(fraction=asked, containers=made, metadata=said, **spec)


def job_of(template):
    """A Job whose pods are to be made from a template, with its labels on the Job too."""
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": labels},
        "spec": {"template": template},
    }


def limits(decided, name=None):
    """The limits of a container, of the only one by default."""
    return decided.container(*([name] if name else [])).get("resources", {}).get("limits")


def memory_limits(decided, name=None):
    """A container's variables that limit GPU memory."""
    env = decided.env(*([name] if name else []))
    return {variable: value for variable, value in env if variable.startswith(_LIMIT)}


def slices_of(decided):
    """The slices of a pod on one GPU, or of a pool."""
    [(name, amount)] = limits(decided).items()
    assert name.startswith("nvidia.com/gpu")
    return int(amount)


def expressions(decided):
    """What the only term of a pod's required node affinity demands: values by label and operator."""
    required = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    return {(each["key"], each["operator"]): each.get("values") for each in term["matchExpressions"]}


def bound_to(decided):
    """The MiB of the GPUs that a pod may land on."""
    return [int(value) for value in expressions(decided)["nvidia.com/gpu.memory", "In"]]
