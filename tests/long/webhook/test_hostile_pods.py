"""Pods changed by hostile hands, before and between reviews: what is let in never has more than its share.

The rules here look at the stored pod alone, and know nothing of the product's code. All policies have mode
per-gpu, with limiter hami-core or none.
"""

import copy
import json
import posixpath
import random
import re
from collections import Counter

import pytest

from tests.webhook.support import FIXTURES, LABEL, Webhook, container, fixture_review, pod, policies

PREFIX = "clearml-injector/"
EIGHTHS = {f"0.{eighths * 125:03d}": eighths for eighths in range(1, 8)}
GIVE_DEVICES = ("cdi.k8s.io", "nvidia.cdi.k8s.io", "devices.nri.io", "mounts.nri.io", "devices.crio.io")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
VARIABLES = [
    *("CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DISABLE_CONTROL", "CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD", "PATH"),
    *("NVIDIA_VISIBLE_DEVICES", "LD_AUDIT"),
]
TEXTS = ["void", "all", "99999m", "/evil.so", "/usr/local/vgpu/libvgpu.so", ""]
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
QUOTA = 24
"""Slices of each namespace with a quota."""
NAMESPACES = ("team", "other")
WHOLE = {"0.500": 4, "0.875": 7, "1.000": 8, "2": 16}
POLICIES = {
    "default": ("", EIGHTHS),
    "quota": (f"quotas: {{namespaces: {{team: {{slices: {QUOTA}}}, other: {{slices: {QUOTA}}}}}}}", EIGHTHS),
    "reserve": ("memory: {reserveMiB: 100}", EIGHTHS),
    "none": ("limiter: none", EIGHTHS),
    "whole": (f"fractions: {json.dumps(WHOLE)}", WHOLE),
}
"""Keys of the default policy, and the slices of its labels."""
PROTECTED = [
    "/dev",
    "/etc/cdi",
    "/etc/kubernetes",
    "/etc/rancher",
    "/run/containerd",
    "/run/dockershim.sock",
    "/run/nvidia",
    "/sys",
    "/usr/local/vgpu",
    "/var/lib/clearml-injector",
    "/var/lib/kubelet",
    "/var/snap/microk8s",
]
LIBRARY = "/usr/local/vgpu/libvgpu.so"
OUR_OWN = {
    "image": "docker.io/projecthami/hamicore:v2.10.0",
    "command": ["sh", "-c", f"cp /k8s-vgpu/lib/nvidia/libvgpu.so.* {LIBRARY}"],
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 65534,
    },
}
REVIEWS, EPOCH = 4000, 400


def faults(stored, fractions, reserve=0):
    """Everything by which a stored pod, which asks for a part of one GPU, could have more than that."""
    spec, said = stored["spec"], stored["metadata"].get("annotations") or {}
    slices = fractions.get(stored["metadata"]["labels"][LABEL])
    index, chosen = said.get(f"{PREFIX}gpu-index", ""), said.get(f"{PREFIX}gpu-container")
    if slices is None or said.get(f"{PREFIX}slices") != str(slices):
        yield f"{said.get(f'{PREFIX}slices')} slices of {slices}"
        return
    inits, regular = spec.get("initContainers") or [], spec["containers"]
    everyone = [*inits, *regular]
    wanted = {f"nvidia.com/gpu-{each}": str(min(8, slices)) for each in index.split(",")}
    if len(wanted) != max(1, slices // 8):
        yield f"index {index!r} of {slices} slices"
    holders = [each for each in regular if each["name"] == chosen]
    if len(holders) != 1 or amounts(holders[0]) != wanted:
        yield f"{chosen} does not have {wanted}"
    for each in everyone:
        has_gpu = bool(amounts(each))
        if has_gpu and (amounts(each) != wanted or (each in regular and each not in holders)):
            yield f"{each['name']} has {amounts(each)}"
        if has_gpu and each in inits and each.get("restartPolicy") == "Always":
            yield f"sidecar {each['name']} holds a GPU"
        if not has_gpu and values(each, "NVIDIA_VISIBLE_DEVICES") != ["void"]:
            yield f"{each['name']} sees GPUs"
        yield from rights(each) if has_gpu else ()
        paths = [normal(mount["mountPath"]) for mount in each.get("volumeMounts") or []]
        yield from (f"mount {path}" for path in paths if path.startswith("/run/nvidia-container-devices"))
    if max(Counter(each["name"] for each in everyone).values()) > 1:
        yield "two containers of one name"
    yield from ways_around(spec, said)
    if slices < 8:
        yield from memory(spec, said.get(f"{PREFIX}memory-mib", ""), slices, reserve)


def amounts(each):
    """What a container has of GPUs, by limits and requests, which are the same."""
    resources = each.get("resources") or {}
    limits, requests = (
        {k: str(v) for k, v in (resources.get(field) or {}).items()} for field in ("limits", "requests")
    )
    found = {name: amount for name, amount in (requests | limits).items() if is_gpu(name) and amount != "0"}
    return found if all(requests.get(name) == limits.get(name) for name in found) else found | {"?": "?"}


def is_gpu(name):
    return name.startswith(("nvidia.com/", "clear.ml/fraction-", "deviceclass.resource.kubernetes.io/"))


def values(each, name):
    return [
        None if e.get("valueFrom") else e.get("value", "") for e in each.get("env") or [] if e["name"] == name
    ]


def rights(each):
    context = each.get("securityContext") or {}
    added = {
        str(name).upper().removeprefix("CAP_")
        for name in (context.get("capabilities") or {}).get("add") or []
    }
    if context.get("privileged") or added & {"ALL", "SYS_ADMIN"}:
        yield f"{each['name']} is privileged or has {added}"


def ways_around(spec, said):
    yield from (f"annotation {name}" for name in said if name.startswith(GIVE_DEVICES))
    if spec.get("hostPID") or spec.get("hostIPC") or spec.get("resourceClaims"):
        yield "hostPID, hostIPC or resourceClaims"
    for volume in spec.get("volumes") or []:
        path = (volume.get("hostPath") or {}).get("path")
        if path is not None and any(overlap(normal(path), place) for place in PROTECTED):
            yield f"hostPath {path}"


def memory(spec, mib, slices, reserve):
    """Each way to match a node binds its memory so that the limit is the share of it."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = [each for each in required.get("nodeSelectorTerms") or [] if any(each.values())]
    if not terms:
        yield "no node affinity binds the memory"
    for term in terms:
        bound = [
            {str(int(value) * slices // 8 - reserve) if value.isdigit() else None for value in each["values"]}
            for each in term.get("matchExpressions") or []
            if (each.get("key"), each.get("operator")) == ("nvidia.com/gpu.memory", "In")
        ]
        if {mib} not in bound:
            yield f"memory {mib!r} is bound by {bound}"


def limiter(stored):
    """Each GPU container loads our library, which nobody else wrote, and has the limit once."""
    spec, mib = stored["spec"], stored["metadata"]["annotations"][f"{PREFIX}memory-mib"]
    everyone, ours = [*(spec.get("initContainers") or []), *spec["containers"]], set()
    others = {name for each in everyone if not is_ours(each) for name in writes(each)}
    for each in everyone:
        if not amounts(each):
            ours |= writes(each) - others
            continue
        library = at(each, "/usr/local/vgpu")
        if not library <= ours or len(library) != 1 or len(at(each, "/usr/local/vgpu-cache")) != 1:
            yield f"{each['name']} loads {library}, and ours are {ours}"
        if re.split("[: ]", (values(each, "LD_PRELOAD") or [""])[0] or "")[0] != LIBRARY:
            yield f"{each['name']} preloads {values(each, 'LD_PRELOAD')}"
        if values(each, "CUDA_DEVICE_MEMORY_LIMIT_0") != [f"{mib}m"]:
            yield f"{each['name']} is limited to {values(each, 'CUDA_DEVICE_MEMORY_LIMIT_0')}"
        yield from (f"{name} is set" for name in ("CUDA_DISABLE_CONTROL", "LD_AUDIT") if values(each, name))
        paths = [normal(mount["mountPath"]) for mount in each.get("volumeMounts") or []]
        yield from ("an override" for path in paths if path == "/overrideEnv")


def writes(each):
    return {mount["name"] for mount in each.get("volumeMounts") or [] if not mount.get("readOnly")}


def at(each, place):
    """The volumes that a container has at a place; "?" for what is not mounted there as a whole."""
    mounts = [
        m for m in each.get("volumeMounts") or [] if f"{normal(m['mountPath'])}/".startswith(f"{place}/")
    ]
    return {m["name"] if m["mountPath"] == place and not m.get("subPath") else "?" for m in mounts}


def is_ours(each):
    """Whether an init container does what the limiter's does, with nothing from outside in it."""
    kept = {field: each.get(field) for field in OUR_OWN}
    places = {normal(mount["mountPath"]) for mount in each.get("volumeMounts") or []}
    more = [field for field in ("args", "envFrom", "lifecycle", "restartPolicy") if each.get(field)]
    return kept == OUR_OWN and places == {"/usr/local/vgpu"} and not more


def normal(path):
    found = posixpath.normpath("/" + path.lstrip("/"))
    return found.removeprefix("/var") if f"{found}/".startswith("/var/run/") else found


def overlap(path, place):
    return f"{path}/".startswith(f"{place}/") or f"{place}/".startswith(f"{path.rstrip('/')}/")


def bases():
    """Pods to begin with: recorded ones, and some of several containers."""
    asking = {"nvidia.com/gpu": "1"}
    names = sorted(path.stem for path in (FIXTURES / "admission-reviews").glob("*.json"))
    recorded = [fixture_review(name)["request"] for name in names]
    creates = [
        r["object"] for r in recorded if r["operation"] == "CREATE" and r["resource"]["resource"] == "pods"
    ]
    return [
        *(each for each in creates if LABEL in (each["metadata"].get("labels") or {})),
        pod(),
        pod(containers=[container(limits=asking), container("side")]),
        pod(initContainers=[container("warm", limits=asking), container("mesh", restartPolicy="Always")]),
        pod(fraction="0.125", volumes=[{"name": "data", "emptyDir": {}}], nodeSelector={"a": "b"}),
    ]


# --- ways to change a pod to one's own advantage, before its review and after


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


@pytest.mark.parametrize("policy", POLICIES)
def test_no_pod_that_is_let_in_has_more_than_its_share(policy):
    text, fractions = POLICIES[policy]
    codes, of_policy = Counter(), policies(text)
    for epoch in range(REVIEWS // len(POLICIES) // EPOCH):
        dice = random.Random(f"20-{policy}-{epoch}")  # noqa: S311 repeatable, no secret
        webhook, known = Webhook(of_policy), bases()
        held = Counter()
        for number in range(EPOCH):
            found = copy.deepcopy(dice.choice(known))
            found["metadata"]["name"] = f"pod-{number}"
            for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 5))):
                dice.choice(TAMPERS)(found, dice)
            namespace = dice.choice(NAMESPACES)
            decided = webhook.decide(found, namespace=namespace, uid=f"{dice.getrandbits(128):032x}")
            codes[decided.code] += 1
            if decided.code not in ("injected", "unchanged"):
                continue
            stored = decided.stored
            assert list(faults(stored, fractions, 100 * (policy == "reserve"))) == []
            slices = int(stored["metadata"]["annotations"][f"{PREFIX}slices"])
            if slices < 8 and policy != "none":
                assert list(limiter(stored)) == []
            held[namespace] += slices
            known = [*known, stored][-60:]
        over = [gpu for node in webhook.ledger.view().nodes for gpu in node.gpus if gpu.used > gpu.capacity]
        assert over == []
        assert policy != "quota" or max(held.values()) <= QUOTA
    assert codes["injected"] > 20
    assert len(codes) > 10, codes
