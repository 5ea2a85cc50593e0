"""What oversized pods (bench/oversized.py) are made of: members of every list and map, and every text."""

from __future__ import annotations

from typing import Any

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
DOTS = "/a/." * 1000

UNREAD = ("the rest of a pod", "beside the object")
"""Groups that no rule reads, whether the pod was injected before or not."""
MEMBERS: dict[str, list[tuple[str, Member]]] = {
    "containers": [
        (SPEC + ".containers", {"name": ""}),
        (SPEC + ".containers", {"name": "train"}),
        (SPEC + ".containers", {"name": "c#"}),
        (SPEC + ".containers", {"name": "c#", **GPU}),
        (SPEC + ".initContainers", {"name": "train", **GPU}),
        (SPEC + ".initContainers", {"name": "c#", **GPU}),
        (SPEC + ".initContainers", {"name": "c#"}),
        (SPEC + ".initContainers", {"name": "c#", "volumeMounts": [{**OURS, "readOnly": False}]}),
        (SPEC + ".initContainers", {"name": "c#", "volumeMounts": [OURS], **GPU}),
        (SPEC + ".initContainers", {"name": "c#", "restartPolicy": "Always"}),
        (SPEC + ".ephemeralContainers", {"name": "c#"}),
    ],
    "volumes": [
        (SPEC + ".volumes", {"name": "v"}),
        (SPEC + ".volumes", {"name": "v#"}),
        (SPEC + ".volumes", {"name": "v#", "hostPath": {"path": "/d"}}),
        (SPEC + ".volumes", {"name": "gpu-limiter-library-#"}),
        (SPEC + ".volumes", {"name": "gpu-limiter-cache-train-#"}),
        (SPEC + ".volumes", {"name": "v#", "emptyDir": {"sizeLimit": "32Mi"}}),
        (SPEC + ".volumes.0.projected.sources", {}),
        (SPEC + ".volumes.0.csi.volumeAttributes", ("a#", "")),
    ],
    "variables": [
        (TRAIN + ".env", {"name": ""}),
        (TRAIN + ".env", {"name": "NVIDIA_VISIBLE_DEVICES"}),
        (TRAIN + ".env", {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}),
        (TRAIN + ".env", {"name": "CUDA_MPS_#"}),
        (TRAIN + ".env", {"name": "V#"}),
        (TRAIN + ".env", {"name": "LD_PRELOAD"}),
        (TRAIN + ".env", {"name": "LD_PRELOAD", "valueFrom": {}}),
        (SPEC + ".containers.1.env", {"name": "NVIDIA_VISIBLE_DEVICES"}),
        (SPEC + ".initContainers.0.env", {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}),
        (SPEC + ".initContainers.0.env", {"name": "V#"}),
        (TRAIN + ".envFrom", {}),
    ],
    "mounts": [
        (TRAIN + ".volumeMounts", {"name": "", "mountPath": ""}),
        (TRAIN + ".volumeMounts", {"name": "v", "mountPath": "/#"}),
        (TRAIN + ".volumeMounts", {"name": "v", "mountPath": "/#" + DOTS}),
        (TRAIN + ".volumeMounts", {"name": "gpu-limiter-library-#", "mountPath": ""}),
        (TRAIN + ".volumeMounts", OURS),
        (TRAIN + ".volumeMounts", {**OURS, "name": "v#"}),
        (SPEC + ".initContainers.0.volumeMounts", {"name": "v", "mountPath": LIBRARY}),
        (SPEC + ".initContainers.0.volumeMounts", {"name": "v", "mountPath": "/var/run/secrets/"}),
    ],
    "other lists of containers": [
        (f"{TRAIN}.{path}", item)
        for path, item in (
            ("args", ""),
            ("command", ""),
            ("ports", {"containerPort": 1}),
            ("ports", {}),
            ("volumeDevices", {"devicePath": ""}),
            ("volumeDevices", {"devicePath": "/#"}),
            ("resizePolicy", {}),
            ("resources.claims", {}),
            ("securityContext.capabilities.add", ""),
            ("securityContext.capabilities.add", "#"),
            ("securityContext.capabilities.drop", "ALL"),
            ("livenessProbe.httpGet.httpHeaders", {}),
            ("lifecycle.preStop.exec.command", ""),
        )
    ],
    "resources": [
        (f"{place}.{field}", item)
        for place in (TRAIN, SPEC)
        for field in ("resources.limits", "resources.requests")
        for item in (
            ("r#", 1),
            ("clear.ml/fraction-#", "500m"),
            ("nvidia.com/gpu-#", 4),
            ("example.com/#", "1.000000001"),
            ("a" * 300 + "#", 10**30),
        )
    ],
    "overhead": [(SPEC + ".overhead", ("r#", 1)), (SPEC + ".overhead", ("r#", "0.001"))],
    "where it may run": [
        (SPEC + ".nodeSelector", ("#", "")),
        (SPEC + ".tolerations", {}),
        (SPEC + ".tolerations", {"key": "#"}),
        (REQUIRED, {}),
        (REQUIRED, {"matchExpressions": [{"key": "", "operator": "In"}]}),
        (REQUIRED, {"matchExpressions": [MEMORY]}),
        (REQUIRED, {"matchFields": [{"key": "", "operator": "In"}]}),
        (REQUIRED + ".0.matchExpressions", {"key": "", "operator": "In"}),
        (REQUIRED + ".0.matchExpressions", MEMORY),
        (REQUIRED + ".0.matchExpressions.0.values", ""),
        (REQUIRED + ".0.matchExpressions.0.values", "81920"),
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
        ("object.metadata.annotations", ("#", "")),
        ("object.metadata.annotations", ("clearml-injector/#", "")),
        ("object.metadata.finalizers", ""),
        ("object.metadata.ownerReferences", {}),
        ("object.metadata.managedFields", {}),
        ("object.metadata.managedFields.0.fieldsV1", ("f:#", {})),
        (SPEC + ".imagePullSecrets", {}),
        (SPEC + ".hostAliases", {}),
        (SPEC + ".hostAliases.0.hostnames", ""),
        (SPEC + ".dnsConfig.options", {}),
        (SPEC + ".dnsConfig.searches", ""),
        (SPEC + ".securityContext.sysctls", {}),
        (SPEC + ".securityContext.supplementalGroups", 1),
        ("object.status.conditions", {}),
    ],
    "beside the object": [
        ("userInfo.groups", ""),
        ("object.metadata.ownerReferences", {"name": "#"}),
        ("userInfo.extra", ("#", [])),
        ("options", ("#", 1)),
        ("oldObject.spec.containers", {"name": ""}),
        ("more", None),
    ],
}
_ANNOTATION = "object.metadata.annotations.clearml-injector/"
TEXTS = [
    "resource.resource",
    "namespace",
    "object.metadata.name",
    "object.metadata.generateName",
    "object.metadata.labels.clearml-injector/fraction",
    "object.metadata.labels.clearml-injector/fraction:0",
    _ANNOTATION + "container",
    _ANNOTATION + "injected",
    _ANNOTATION + "slices:4",
    _ANNOTATION + "gpu-index:,",
    _ANNOTATION + "gpu-index:1",
    _ANNOTATION + "gpu-index:0,",
    _ANNOTATION + "gpu-container",
    _ANNOTATION + "memory-mib:9",
    _ANNOTATION + "reservation",
    SPEC + ".nodeName",
    SPEC + ".runtimeClassName",
    SPEC + ".volumes.0.name",
    SPEC + ".volumes.0.hostPath.path",
    SPEC + ".volumes.0.hostPath.path:/a",
    SPEC + ".volumes.0.hostPath.path:/dev/..",
    TRAIN + ".name",
    TRAIN + ".name:é",
    TRAIN + ".image",
    TRAIN + ".args.0",
    TRAIN + '.args.0:"',
    TRAIN + ".args.0:é",
    TRAIN + ".restartPolicy",
    TRAIN + ".terminationMessagePath:/.",
    TRAIN + ".env.0.name",
    TRAIN + ".env.0.name:CUDA_MPS_",
    TRAIN + ".env.0.value",
    TRAIN + ".volumeMounts.0.mountPath",
    TRAIN + ".volumeMounts.0.mountPath:/a",
    TRAIN + ".volumeMounts.0.mountPath:/.",
    TRAIN + ".resources.limits.nvidia|com/gpu:1",
    TRAIN + ".resources.limits.cpu:1",
    TRAIN + ".resources.requests.memory:0.",
    SPEC + ".initContainers.0.name",
]
_JOB = "object.spec.template.spec"
JOBS: list[tuple[str, Member]] = [
    (_JOB + ".containers", {"name": ""}),
    (_JOB + ".containers", {"name": "c#", "resources": {"limits": {"clear.ml/fraction-1": "500m"}}}),
    (_JOB + ".initContainers", {"name": "c#"}),
    (_JOB + ".containers.0.resources.limits", ("clear.ml/fraction-#", "500m")),
    (_JOB + ".containers.0.resources.limits", ("r#", 1)),
    (_JOB + ".containers.0.env", {"name": ""}),
    (_JOB + ".volumes", {"name": ""}),
    ("object.metadata.annotations", ("#", "")),
]
