"""Ways to change a pod to one's own advantage, before its review and after."""

import copy

from tests.webhook.support import LABEL

PREFIX = "clearml-injector/"
EIGHTHS = {f"0.{eighths * 125:03d}": eighths for eighths in range(1, 8)}
GIVE_DEVICES = ("cdi.k8s.io", "nvidia.cdi.k8s.io", "devices.nri.io", "mounts.nri.io", "devices.crio.io")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
VARIABLES = [
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DISABLE_CONTROL",
    "CUDA_MPS_PIPE_DIRECTORY",
    "LD_PRELOAD",
    "PATH",
    "NVIDIA_VISIBLE_DEVICES",
    "LD_AUDIT",
]
TEXTS = [
    *["void", "all", "99999m", "/evil.so", "/usr/local/vgpu/libvgpu.so"],
    "",
]
PATHS = [
    "/usr/local/vgpu",
    "/usr/local//vgpu/",
    "/usr/local/vgpu-cache",
    "/overrideEnv",
    "/k8s-vgpu/lib/nvidia",
    "/data",
    "/var/run/secrets/../../../k8s-vgpu/lib/nvidia",
    "/var/run/nvidia-container-devices/all",
    "/",
]
HOST_PATHS = [
    "/",
    "//dev/nvidia0",
    "/var/lib/kubelet",
    "/etc",
    "/data",
    "/var/run/../run/nvidia",
    "/dev/infiniband",
    "/var/lib/clearml-injector/library",
    "/etc/rancher/k3s",
    "/var/run/dockershim.sock",
]
SAID = ["injected", "slices", "gpu-index", "gpu-container", "memory-mib", "reservation", "container"]
SOURCES = [
    {"emptyDir": {}},
    {"emptyDir": {"sizeLimit": "32Mi", "medium": "Memory"}},
    {"configMap": {"name": "x"}},
]
SOURCES += [{"hostPath": {"path": path}} for path in HOST_PATHS]
OURS = {
    "image": ["evil.example/x:1", None],
    "command": [["sh", "-c", "true"], None],
    "env": [[], [{"name": "PATH", "value": "/evil"}]],
    "envFrom": [[{"configMapRef": {"name": "evil"}}]],
    "restartPolicy": ["Always"],
    "lifecycle": [{"postStart": {"exec": {"command": ["true"]}}}],
    "securityContext": [None, {"runAsUser": 0}],
    "name": ["gpu-limiter-2", "other"],
}
RIGHTS = [
    {"privileged": True},
    *({"capabilities": {"add": [name]}} for name in ("CAP_SYS_ADMIN", "all", "CHOWN")),
]


def containers_of(found):
    return [*(found["spec"].get("initContainers") or []), *found["spec"]["containers"]]


def more(each, field, made, dice):
    """Add to a list of a container or pod, at any place."""
    each[field] = list(each.get(field) or [])
    each[field].insert(dice.randint(0, len(each[field])), made)


def change_ours(found, dice):
    ours = [each for each in containers_of(found) if each["name"].startswith("gpu-limiter")]
    field = dice.choice(list(OURS))
    for each in ours[:1]:
        each[field] = dice.choice(OURS[field])


def mount(found, dice):
    names = [each["name"] for each in found["spec"].get("volumes") or []]
    made = {"name": dice.choice([*names, "data"]), "mountPath": dice.choice(PATHS)}
    made |= dice.choice([{}, {"readOnly": True}, {"readOnly": False}, {"subPath": "x"}])
    more(dice.choice(containers_of(found)), "volumeMounts", made, dice)


def set_variable(found, dice):
    said = dice.choice(
        [{"value": dice.choice(TEXTS)}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    )
    more(dice.choice(containers_of(found)), "env", {"name": dice.choice(VARIABLES), **said}, dice)


def add_container(found, dice):
    made = copy.deepcopy(dice.choice(containers_of(found)))
    made["name"] = dice.choice([made["name"], "gpu-limiter", "evil", "train"])
    more(found["spec"], dice.choice(["initContainers", "containers"]), made, dice)


def reorder(found, dice):
    dice.shuffle(found["spec"].get("initContainers") or [])


def change_volume(found, dice):
    known = [each["name"] for each in found["spec"].get("volumes") or []]
    name = dice.choice([*known, "data", "gpu-limiter-library"])
    kept = [each for each in found["spec"].get("volumes") or [] if each["name"] != name]
    found["spec"]["volumes"] = [*kept, {"name": name, **dice.choice(SOURCES)}]


def annotate(found, dice):
    said = found["metadata"]["annotations"] = found["metadata"].get("annotations") or {}
    text = dice.choice([*said.values(), "", "0", "1", "8", "9999", "0,1", "²", "81920", "train", "default@x"])
    said[dice.choice([*(f"{PREFIX}{name}" for name in SAID), *(f"{name}/pod" for name in GIVE_DEVICES)])] = (
        text
    )


def ask_for_amounts(found, dice):
    names = [
        "nvidia.com/gpu",
        "nvidia.com/gpu-0",
        "nvidia.com/gpu-1",
        "nvidia.com/gpumem",
        "clear.ml/fraction-1",
    ]
    asked = {dice.choice(names): dice.choice(["0", "1", "4", "8", "500m", 4])}
    each = dice.choice(containers_of(found))
    old = each.get("resources") or {}
    each["resources"] = old | {field: (old.get(field) or {}) | asked for field in ("limits", "requests")}


def change_affinity(found, dice):
    demand = {"key": "nvidia.com/gpu.memory", "operator": dice.choice(["In", "NotIn"]), "values": ["81920"]}
    term = dice.choice(
        [{}, {"matchExpressions": [demand]}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    )
    node = found["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    more(node.setdefault(REQUIRED, {}), "nodeSelectorTerms", term, dice)


def take_rights(found, dice):
    dice.choice(containers_of(found))["securityContext"] = dice.choice(RIGHTS)
    if dice.random() < 0.3:
        found["spec"][dice.choice(["hostPID", "hostIPC"])] = True


def relabel(found, dice):
    found["metadata"]["labels"][LABEL] = dice.choice([*EIGHTHS, "1.000", "2", "0.5", "x", ""])


TAMPERS = [change_ours, mount, set_variable, add_container, reorder, change_volume, annotate, ask_for_amounts]
TAMPERS += [change_affinity, take_rights, relabel, change_ours]
