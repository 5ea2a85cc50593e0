"""What oversized pods (testbed/oversized.py) are made of: members of lists and maps, and texts.

Of lists and maps that no rule reads there is one of each kind.
"""

from __future__ import annotations

from typing import Any

from webhook.admission.pod import LABEL

Member = Any
"""Of a list, or as a tuple key and value of a map; `#` in its texts is its number."""

SPEC = "object.spec"
LIBRARY = "/usr/local/vgpu"
TRAIN = "object.spec.containers.0"
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
NODE_AFFINITY = SPEC + ".affinity.nodeAffinity"
REQUIRED = NODE_AFFINITY + ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PREFERRED = NODE_AFFINITY + ".preferredDuringSchedulingIgnoredDuringExecution"
MEMORY = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]}
OURS = {"name": "gpu-limiter-library", "mountPath": LIBRARY, "readOnly": True}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NO_KEY = {"key": "", "operator": "In"}
DOTS = "/a/." * 1000


def _at(path: str, *members: Member) -> list[tuple[str, Member]]:
    return [(path, member) for member in members]


UNREAD = ("the rest of a pod", "beside the object")
"""Groups that no rule reads, whether the pod was injected before or not."""
MEMBERS: dict[str, list[tuple[str, Member]]] = {
    "containers": [
        *_at(SPEC + ".containers", {"name": ""}, {"name": "train"}, {"name": "c#"}, {"name": "c#", **GPU}),
        *_at(SPEC + ".initContainers", {"name": "train", **GPU}, {"name": "c#", **GPU}, {"name": "c#"}),
        *_at(
            SPEC + ".initContainers",
            {"name": "c#", "volumeMounts": [{**OURS, "readOnly": False}]},
            {"name": "c#", "volumeMounts": [OURS], **GPU},
            {"name": "c#", "restartPolicy": "Always"},
        ),
        (SPEC + ".ephemeralContainers", {"name": "c#"}),
    ],
    "volumes": [
        *_at(SPEC + ".volumes", {"name": "v"}, {"name": "v#"}, {"name": "v#", "hostPath": {"path": "/d"}}),
        *_at(SPEC + ".volumes", {"name": "gpu-limiter-library-#"}, {"name": "gpu-limiter-cache-train-#"}),
        (SPEC + ".volumes", {"name": "v#", "emptyDir": {"sizeLimit": "32Mi"}}),
        (SPEC + ".volumes.0.projected.sources", {}),
        (SPEC + ".volumes.0.csi.volumeAttributes", ("a#", "")),
    ],
    "variables": [
        *_at(TRAIN + ".env", {"name": ""}, {"name": "CUDA_MPS_#"}, {"name": "V#"}),
        *_at(TRAIN + ".env", {"name": VISIBLE}, {"name": VISIBLE, "value": "all"}),
        *_at(TRAIN + ".env", {"name": "LD_PRELOAD"}, {"name": "LD_PRELOAD", "valueFrom": {}}),
        (SPEC + ".containers.1.env", {"name": VISIBLE}),
        *_at(SPEC + ".initContainers.0.env", {"name": VISIBLE, "value": "void"}, {"name": "V#"}),
        (TRAIN + ".envFrom", {}),
    ],
    "mounts": [
        *_at(TRAIN + ".volumeMounts", {"name": "", "mountPath": ""}, {"name": "v", "mountPath": "/#"}),
        *_at(TRAIN + ".volumeMounts", OURS, {**OURS, "name": "v#"}),
        (TRAIN + ".volumeMounts", {"name": "v", "mountPath": "/#" + DOTS}),
        (TRAIN + ".volumeMounts", {"name": "gpu-limiter-library-#", "mountPath": ""}),
        (SPEC + ".initContainers.0.volumeMounts", {"name": "v", "mountPath": LIBRARY}),
        (SPEC + ".initContainers.0.volumeMounts", {"name": "v", "mountPath": "/var/run/secrets/"}),
    ],
    "other lists of containers": [
        *_at(TRAIN + ".args", ""),
        *_at(TRAIN + ".volumeDevices", {"devicePath": ""}, {"devicePath": "/#"}),
        *_at(TRAIN + ".resizePolicy", {}),
        *_at(TRAIN + ".resources.claims", {}),
        *_at(TRAIN + ".securityContext.capabilities.add", "", "#"),
        *_at(TRAIN + ".securityContext.capabilities.drop", "ALL"),
    ],
    "resources": [
        (f"{place}.resources.{field}", item)
        for place in (TRAIN, SPEC)
        for field in ("limits", "requests")
        for item in (
            ("r#", 1),
            ("clear.ml/fraction-#", "500m"),
            ("nvidia.com/gpu-#", 4),
            ("example.com/#", "1.000000001"),
            ("a" * 300 + "#", 10**30),
        )
    ],
    "overhead": _at(SPEC + ".overhead", ("r#", 1), ("r#", "0.001")),
    "where it may run": [
        (SPEC + ".nodeSelector", ("#", "")),
        *_at(SPEC + ".tolerations", {}, {"key": "#"}),
        *_at(REQUIRED, {}, {"matchExpressions": [NO_KEY]}, {"matchExpressions": [MEMORY]}),
        (REQUIRED, {"matchFields": [NO_KEY]}),
        *_at(REQUIRED + ".0.matchExpressions", NO_KEY, MEMORY),
        *_at(REQUIRED + ".0.matchExpressions.0.values", "", "81920"),
        (PREFERRED, {}),
        (SPEC + ".affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", {}),
        (SPEC + ".topologySpreadConstraints", {}),
        (SPEC + ".topologySpreadConstraints.0.labelSelector.matchLabels", ("#", "")),
        (SPEC + ".readinessGates", {}),
        (SPEC + ".schedulingGates", {"name": ""}),
        (SPEC + ".resourceClaims", {}),
    ],
    "the rest of a pod": [
        ("object.metadata.labels", ("#", "")),
        *_at("object.metadata.annotations", ("#", ""), ("clearml-injector/#", "")),
        ("object.metadata.finalizers", ""),
        ("object.metadata.managedFields", {}),
        ("object.metadata.managedFields.0.fieldsV1", ("f:#", {})),
        (SPEC + ".hostAliases.0.hostnames", ""),
    ],
    "beside the object": [
        ("userInfo.extra", ("#", [])),
        ("oldObject.spec.containers", {"name": ""}),
        ("more", None),
    ],
}
_UNDER: dict[str, tuple[str, ...]] = {
    "": ("resource.resource", "namespace"),
    "object.metadata.": ("name", "generateName", "labels." + LABEL, f"labels.{LABEL}:0"),
    "object.metadata.annotations.clearml-injector/": (
        *("container", "injected", "slices:4", "gpu-container", "memory-mib:9", "reservation"),
        *("gpu-index:,", "gpu-index:1", "gpu-index:0,"),
    ),
    SPEC + ".": ("nodeName", "runtimeClassName", "initContainers.0.name"),
    SPEC + ".volumes.0.": ("name", "hostPath.path", "hostPath.path:/a", "hostPath.path:/dev/.."),
    TRAIN + ".": (
        *("name", "name:é", "image", "args.0", 'args.0:"', "args.0:é", "restartPolicy"),
        *("terminationMessagePath:/.", "env.0.name", "env.0.name:CUDA_MPS_", "env.0.value"),
        *("volumeMounts.0.mountPath", "volumeMounts.0.mountPath:/a", "volumeMounts.0.mountPath:/."),
        *("resources.limits.nvidia|com/gpu:1", "resources.limits.cpu:1", "resources.requests.memory:0."),
    ),
}
TEXTS = [place + each for place, texts in _UNDER.items() for each in texts]
_JOB = "object.spec.template.spec"
JOBS: list[tuple[str, Member]] = [
    (_JOB + ".containers", {"name": ""}),
    (_JOB + ".containers", {"name": "c#", "resources": {"limits": {"clear.ml/fraction-1": "500m"}}}),
    (_JOB + ".initContainers", {"name": "c#"}),
    *_at(_JOB + ".containers.0.resources.limits", ("clear.ml/fraction-#", "500m"), ("r#", 1)),
    (_JOB + ".containers.0.env", {"name": ""}),
    (_JOB + ".volumes", {"name": ""}),
    ("object.metadata.annotations", ("#", "")),
]
