"""AdmissionReviews as an API server sends them, from the recorded fixtures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
PATH = "/mutate?timeout=5s"
"""Where an API server posts them: it adds its own time to the path."""
VARIANTS = 64
"""Reviews of one kind that differ in uid, in the pod's name and wherever else ClearML writes a task's id."""
UNLIKE = 5000
"""Reviews of pods that have nothing to remember from one for the next."""
_TASK_LABEL = "clearml-task-id"

Review = dict[str, Any]


def clearml(variants: int = VARIANTS) -> list[bytes]:
    """A pod of ClearML's agent, 13 kB."""
    return _variants(_fixture("clearml-half"), variants)


def meshed(variants: int = VARIANTS) -> list[bytes]:
    """The same pod after a service mesh's injector, 21 to 25 kB."""
    return _variants(_through_a_mesh(_fixture("clearml-half")), variants)


def padded(size: int, variants: int = 4) -> list[bytes]:
    """ClearML's pod with a script so long that the body has `size` bytes, in a namespace of its own."""
    review = _fixture("clearml-half")
    review["request"]["namespace"] = review["request"]["object"]["metadata"]["namespace"] = "large"
    missing = size - len(_compact(review))
    review["request"]["object"]["spec"]["containers"][0]["args"] = ["-c", "x" * max(0, missing)]
    return _variants(review, variants)


def small(variants: int = VARIANTS) -> list[bytes]:
    """A pod with variables and amounts, 3.5 kB."""
    return _variants(_small(), variants)


def unlike_small(variants: int = UNLIKE) -> list[bytes]:
    """The same, each with a toleration that no other pod has."""
    review = _small()
    review["request"]["object"]["spec"]["tolerations"] = [{"key": "SELDOM", "operator": "Exists"}]
    return [
        body.replace(b"SELDOM", b"seldom-%d" % number)
        for number, body in enumerate(_variants(review, variants))
    ]


def _small() -> Review:
    review = _fixture("bare")
    [container] = review["request"]["object"]["spec"]["containers"]
    amounts = {"cpu": "4", "memory": "16Gi"}
    container["env"] = [{"name": f"SETTING_{each}", "value": f"value of {each}"} for each in range(10)]
    container["resources"] = {"limits": amounts | {"nvidia.com/gpu": "1"}, "requests": dict(amounts)}
    return review


KINDS: dict[str, Callable[[], list[bytes]]] = {
    "ClearML pod": clearml,
    "mesh-injected pod": meshed,
    "300 kB": lambda: padded(300_000),
    "small pods, no two alike": unlike_small,
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
    routes = [
        "iptables",
        "-p",
        "15001",
        "-z",
        "15006",
        "-u",
        "1337",
        "-m",
        "REDIRECT",
        "-i",
        "*",
        "-x",
        "",
        "-b",
        "*",
    ]
    spec["initContainers"] = [{**_MESH, "name": "mesh-init", "args": routes, "volumeMounts": [_TOKEN]}]
    spec["volumes"] = [
        *({"name": name, "emptyDir": {"medium": "Memory"}} for name in SOCKETS),
        *spec["volumes"],
    ]
    metadata["annotations"] |= {
        "mesh.example.com/status": json.dumps({"containers": ["mesh-proxy"], "revision": "default"}),
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/port": "15020",
        "prometheus.io/scrape": "true",
    }
    metadata["labels"] |= {"mesh.example.com/revision": "default"}
    return review


SOCKETS = ("workload-socket", "credential-socket", "workload-certs", "mesh-envoy", "mesh-data")
_MESH = {
    "image": "registry.example.com/mesh/proxy:1.29.0",
    "imagePullPolicy": "IfNotPresent",
    "resources": {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "128Mi"},
    },
}
_TOKEN = {
    "name": "kube-api-access-g9hhf",
    "readOnly": True,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}


def _proxy() -> dict[str, Any]:
    names = ("POD_NAME", "POD_NAMESPACE", "INSTANCE_IP", "SERVICE_ACCOUNT", "HOST_IP", "NODE_NAME")
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    # What a mesh tells its proxy about the workload: JSON inside a variable.
    told = {"cluster": "Kubernetes", "mesh": "cluster.local", "pad": "m" * 140}
    return {
        **_MESH,
        "name": "mesh-proxy",
        "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--log", "warning"],
        "ports": [{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"}],
        "env": [
            *({"name": name, "valueFrom": field} for name in names),
            *(
                {"name": f"MESH_META_{each}", "value": json.dumps({**told, "key": each})}
                for each in range(26)
            ),
        ],
        "volumeMounts": [*({"name": name, "mountPath": f"/mesh/{name}"} for name in SOCKETS), _TOKEN],
        "readinessProbe": {"httpGet": {"path": "/healthz/ready", "port": 15021, "scheme": "HTTP"}},
        "securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 1337, "runAsNonRoot": True},
    }
