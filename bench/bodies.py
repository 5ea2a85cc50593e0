"""AdmissionReviews as an API server sends them, from the recorded fixtures; also as others print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webhook.patch_cache.cache import MAX_SEEN_ONCE

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
PATH = "/mutate?timeout=5s"
"""Where an API server posts them: it adds its own time to the path."""
VARIANTS = 64
"""Reviews of one kind that differ in uid, in the pod's name and wherever else ClearML writes a task's id."""
_TASK_LABEL = "clearml-task-id"

Review = dict[str, Any]


def bare(variants: int = VARIANTS) -> list[bytes]:
    """A pod with one container and the label, 3 kB."""
    return _variants(_fixture("bare"), variants)


def clearml(variants: int = VARIANTS) -> list[bytes]:
    """A pod of ClearML's agent, 13 kB."""
    return _variants(_fixture("clearml-half"), variants)


def meshed(variants: int = VARIANTS) -> list[bytes]:
    """The same pod after a service mesh's injector, 21 to 25 kB."""
    return _variants(_through_a_mesh(_fixture("clearml-half")), variants)


def padded(size: int, variants: int = 4) -> list[bytes]:
    """ClearML's pod with a script so long that the body has `size` bytes."""
    review = _fixture("clearml-half")
    missing = size - len(_compact(review))
    review["request"]["object"]["spec"]["containers"][0]["args"] = ["-c", "x" * max(0, missing)]
    return _variants(review, variants)


UNLIKE = MAX_SEEN_ONCE + 904
"""So many that each is new to the webhook, also when it comes round again."""


def unlike(variants: int = UNLIKE) -> list[bytes]:
    """ClearML's pod, each with its own names, CPU and memory, and a value of a variable."""
    return _unlike(_fixture("clearml-half"), variants)


def small(variants: int = VARIANTS) -> list[bytes]:
    """A pod with variables and amounts, 3.5 kB."""
    return _variants(_small(), variants)


def _unlike(review: Review, variants: int) -> list[bytes]:
    pod = review["request"]["object"]
    [container] = pod["spec"]["containers"]
    resources, uid = container["resources"], review["request"]["uid"][8:]
    amounts = [resources["requests"], *([resources["limits"]] if "cpu" in resources["limits"] else [])]
    made = []
    for number in range(variants):
        for each in amounts:
            each |= {"cpu": f"{1001 + number}m", "memory": f"{8000 + number}Mi"}
        container["env"][0] |= {"value": f"value of {number}"}
        review["request"]["name"] = pod["metadata"]["name"] = container["name"] = f"task-{number}"
        review["request"]["uid"] = f"{number:08x}{uid}"
        made.append(_compact(review))
    return made


def _small() -> Review:
    review = _fixture("bare")
    [container] = review["request"]["object"]["spec"]["containers"]
    amounts = {"cpu": "4", "memory": "16Gi"}
    container["env"] = [{"name": f"SETTING_{each}", "value": f"value of {each}"} for each in range(10)]
    container["resources"] = {"limits": amounts | {"nvidia.com/gpu": "1"}, "requests": dict(amounts)}
    return review


def pretty(sample: Sequence[bytes]) -> list[bytes]:
    """The same reviews with a line for each value, as a proxy or another API server may print them."""
    return [json.dumps(json.loads(body), indent=2).encode() for body in sample]


KINDS: dict[str, Callable[[], list[bytes]]] = {
    "bare pod": bare,
    "ClearML pod": clearml,
    "mesh-injected pod": meshed,
    "ClearML pod, pretty-printed": lambda: pretty(clearml()),
    "300 kB": lambda: padded(300_000),
    "ClearML pods, no two alike": unlike,
    "small pod": small,
}


def _fixture(name: str) -> Review:
    review: Review = json.loads((FIXTURES / "admission-reviews" / f"{name}.create.json").read_text())
    return review


def _compact(review: Review) -> bytes:
    return json.dumps(review, separators=(",", ":")).encode()


def _variants(review: Review, count: int) -> list[bytes]:
    made = []
    pod = review["request"]["object"]
    before = pod["metadata"]["name"]
    # ClearML names its pods after tasks, whose ids stand in labels, variables and annotations too.
    task = pod["metadata"]["labels"].get(_TASK_LABEL, before)
    text = _compact(review).decode()
    for number in range(count):
        after = f"{number:04x}{task[4:]}"
        uid = review["request"]["uid"]
        made.append(text.replace(uid, f"{number:08x}{uid[8:]}").replace(task, after).encode())
    return made


def _token_mount() -> dict[str, Any]:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    return {"name": "kube-api-access-g9hhf", "readOnly": True, "mountPath": path}


def _through_a_mesh(review: Review) -> Review:
    """Add what a mesh's injector adds: a proxy, an init container for its routes, volumes, annotations."""
    pod = review["request"]["object"]
    spec, metadata = pod["spec"], pod["metadata"]
    spec["containers"].append(_proxy())
    spec["initContainers"] = [_routes()]
    spec["volumes"] = [*_mesh_volumes(), *spec["volumes"]]
    status = {"initContainers": ["mesh-init"], "containers": ["mesh-proxy"], "revision": "default"}
    metadata["annotations"] |= {
        "mesh.example.com/status": json.dumps(status),
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/port": "15020",
        "prometheus.io/scrape": "true",
    }
    metadata["labels"] |= {
        "mesh.example.com/revision": "default",
        "mesh.example.com/canonical-name": "clearml",
    }
    return review


def _proxy() -> dict[str, Any]:
    names = ("POD_NAME", "POD_NAMESPACE", "INSTANCE_IP", "SERVICE_ACCOUNT", "HOST_IP", "NODE_NAME")
    fields = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
        for name in names
    ]
    plain = [{"name": f"MESH_META_{number}", "value": _meta(number)} for number in range(24)]
    mounts = [
        {"name": name, "mountPath": f"/var/run/secrets/mesh/{name}"}
        for name in ("workload-socket", "credential-socket", "workload-certs", "mesh-envoy", "mesh-data")
    ]
    return {
        "name": "mesh-proxy",
        "image": "registry.example.com/mesh/proxy:1.29.0",
        "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--log", "warning"],
        "ports": [{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"}],
        "env": [*fields, *plain],
        "resources": {
            "limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "volumeMounts": [*mounts, _token_mount()],
        "readinessProbe": {"httpGet": {"path": "/healthz/ready", "port": 15021, "scheme": "HTTP"}},
        "imagePullPolicy": "IfNotPresent",
        "securityContext": _restricted(1337),
    }


def _meta(number: int) -> str:
    """What a mesh tells its proxy about the workload: JSON inside a variable."""
    return json.dumps({"cluster": "Kubernetes", "mesh": "cluster.local", "key": number, "pad": "m" * 120})


def _routes() -> dict[str, Any]:
    ports = ["-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*"]
    return {
        "name": "mesh-init",
        "image": "registry.example.com/mesh/proxy:1.29.0",
        "args": ["iptables", *ports, "-d", "15090,15021,15020"],
        "resources": {
            "limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "volumeMounts": [_token_mount()],
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]},
            "runAsUser": 0,
        },
    }


def _mesh_volumes() -> list[dict[str, Any]]:
    memory = [{"name": name, "emptyDir": {"medium": "Memory"}} for name in ("workload-socket", "mesh-envoy")]
    plain: list[dict[str, Any]] = [
        {"name": name, "emptyDir": {}} for name in ("credential-socket", "workload-certs", "mesh-data")
    ]
    return [*memory, *plain]


def _restricted(user: int) -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
    }
