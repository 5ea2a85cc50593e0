"""Pods that claim to be injected: their parts, and what the second lock says of wrong ones."""

ADVICE = "leave out what the injector writes, and if you did, tell your admin"
ENV = (
    "env of GPU containers: must hold the limiter's variables once, "
    f"for the MiB in clearml-injector/memory-mib: {ADVICE}"
)
PARTS = (
    f"limits: the containers that ask for slices must be those of clearml-injector/gpu-container: {ADVICE}"
)
BY_MEMORY = "-by-memory"
APART = (
    "limits of GPU containers: must be the slices of each container on the GPU "
    f"that clearml-injector/gpu-index says of it: {ADVICE}"
)
EACH_GPU = f"env of GPU containers: must limit each of the GPUs in clearml-injector/gpus once: {ADVICE}"
CONTAINER = f"clearml-injector/gpu-container: the container is missing or requests no slices: {ADVICE}"


def said(pod):
    return pod["metadata"]["annotations"]


def task(pod):
    return pod["spec"]["containers"][0]


def variable(pod, name):
    [found] = [entry for entry in task(pod)["env"] if entry["name"] == name]
    return found


def index_of(pod):
    return said(pod)["clearml-injector/gpu-index"]


def limits(slices, names):
    return f"limits of GPU containers: must be {slices} slices of {names}, as the annotations say: {ADVICE}"
