"""Values, ordinary and adverse, for every field of a pod or of its request that a decision can read.

When a rule reads a new field, list its possible values here (tests/webhook/test_field_values.py).
"""

from typing import Any, NamedTuple

from kube.names import is_uid

GONE = object()
"""The field is left out."""
LABEL = "clearml-injector/fraction"
MEMORY_LABEL = "clearml-injector/gpu-memory"
OURS = "clearml-injector/"
TEXTS = ["", "other", "%", "%b", "%(a)s%%", 'q"', "a\\", "é", "a\nb", "\u2028", "\x00", "{container}"]
LIMITER = ["gpu-limiter", "gpu-limiter-library", "gpu-limiter-cache-train", "my-gpu-limiter", "gpu-limite"]
LONG = ["a" * length for length in (45, 46, 63, 64)]
CLAIM = {"name": "not-a-gpu-rdma-example-com", "resourceClaimTemplateName": "anything"}
IMAGES = ["example.com/b:2", "clearml/fractional-gpu:u22-cu12.3-8gb", "small:1"]
RESERVED = [
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_GPU_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_SM_LIMIT_1",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_REDIRECT",
    "CUDA_DISABLE_CONTROL",
    "CUDA_OVERSUBSCRIBE",
    "GPU_CORE_UTILIZATION_POLICY",
    "ACTIVE_OOM_KILLER",
    "CUDA_MPS_PIPE_DIRECTORY",
    "LIBCUDA_LOG_LEVEL",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "DOCKER_RESOURCE_GPU",
]
OF_POLICIES = ["WHERE", "SHARE", "QUOTED"]
VARIABLES = [*RESERVED, *OF_POLICIES, "PATH", "ld_preload", "LD_PRELOAD ", "CUDA_", "x" * 200, *TEXTS]
PATHS = [
    "/data",
    "/usr/local/vgpu",
    "/usr/local/vgpu/",
    "//usr/local/./vgpu",
    "/usr/local/x/../vgpu-cache/y",
    "usr/local/vgpu",
    "/usr/local/vgpu2",
    "/usr/local",
    "/",
    "/var/run/nvidia-container-devices",
    "/run/nvidia-container-devices/GPU-1",
    "/run/nvidia-container-devices2",
    "/overrideEnv",
    "//overrideEnv/x",
    "/overrideEnv2",
    "/dev/termination-log",
    "/" + "x" * 200,
    *TEXTS,
]
HOST_PATHS = ["/data", "/dev", "//dev/./x", "/", "/var", "/var/run/nvidia", "/proc/1/root", ""]
HOST_PATHS += ["/dev//shm", "/etc/kubernetes", "/var/lib/kubelet/pods", "/var/run/cri-dockerd.sock"]
HOST_PATHS += ["/var/lib/clearml-injector", "/opt/agent/x", "/etc/rancher"]
HOST_PATHS += ["/opt/nri/plugins", "/etc/nri", "/tmp/nvidia-mps"]  # noqa: S108 paths of a node
HOST_PATHS += ["/sys/class", "/dev/infiniband/uverbs0", "/dev/fuse", "/var/lib/containerd"]
COUNTS = ["1", "2", "4", "8", "16", "0", 1, 3, "500m", "-1", "", "%b", "x"]
OTHERS = [
    "nvidia.com/gpu.shared",
    "nvidia.com/gpu-0",
    "nvidia.com/gpu-9",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/hostdev",
]
OTHERS += ["nvidia.com/gpumem", "amd.com/gpu", "example.com/pool", "deviceclass.resource.kubernetes.io/gpu"]
CAPABILITIES = ["NET_ADMIN", "SYS_ADMIN", "ALL", "CAP_SYS_ADMIN", "cap_all", "sys_admin", *TEXTS]
AMOUNTS: list[Any] = [
    GONE,
    None,
    {},
    *({"nvidia.com/gpu": count} for count in COUNTS),
    *({name: "1"} for name in OTHERS),
    *({"nvidia.com/mig-1g.10gb": count} for count in ("1", "2", "0", 1)),
    {"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"},
    {"nvidia.com/mig-nonsense": "1"},
    *({"clear.ml/fraction-1": amount} for amount in ("0.500", "500m", "250m", "1", "2")),
    {"nvidia.com/gpu": "1", "clear.ml/fraction-a/b~c%b": "500m"},
    {"cpu": "1", "memory": "1Gi"},
    {"cpu": 1, "memory": "1Ti", "ephemeral-storage": "1Gi"},
    {"cpu": "a lot"},
    {"cpu": '1"'},
    {f"example.com/{number}": "1" for number in range(1000)},
]
RESOURCES: list[Any] = [GONE, None, {}, *({"limits": each, "requests": each} for each in AMOUNTS[1:])]
TERM = {"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITIES: list[Any] = [GONE, None, {}, {"nodeAffinity": None}, {"podAffinity": {}}]
NODE_AFFINITIES: list[Any] = [GONE, None, {}, {REQUIRED: {"nodeSelectorTerms": [TERM]}}]
SELECTORS: list[Any] = [
    GONE,
    None,
    {},
    {"nvidia.com/gpu.present": "true"},
    {"kubernetes.io/hostname": "none"},
]
LABELS = {LABEL: "0.500"}


class Also(NamedTuple):
    """Members to add to those that an object has."""

    members: dict[str, Any]


def also(name: str, *values: Any) -> list[Also]:
    return [Also({name: value}) for value in values]


CONTAINER = {"name": "more"}
VALUES: dict[str, list[Any]] = {
    "Pod.metadata": [
        GONE,
        None,
        {},
        {"labels": {}},
        {"labels": LABELS},
        {"labels": LABELS, "annotations": {}},
    ],
    "Pod.spec": [GONE, None, {}, {"containers": []}, {"containers": [CONTAINER]}],
    "ObjectMeta.name": [GONE, None, "train", "proxy", "clearml-id-1", *TEXTS],
    "ObjectMeta.labels": [
        *also(LABEL, "0.250", "0.5", "1.000", "2", "0.2", "0.95", "", "0.500 ", "é"),
        *also(MEMORY_LABEL, "4Gi", "4G", ""),
        *(
            {MEMORY_LABEL: text}
            for text in ("4Gi", "700Mi", "40Gi", "79Gi", "4G", "0", "", "4Gi ", "999999999Gi")
        ),
        *also("clearml-agent-queue-name", "large", "LARGE", "none-such", ""),
        *also("clearml-agent-queue", "id-1", "id-2", ""),
        *also("app%b", *TEXTS),
        GONE,
        None,
        {},
        LABELS,
    ],
    "ObjectMeta.annotations": [
        GONE,
        None,
        {},
        *also("note", *TEXTS),
        *also(OURS + "container", "train", "proxy", "none-such", ""),
        *also("kubectl.kubernetes.io/default-container", "train", "proxy", "istio-proxy", "none-such", ""),
        *also(OURS + "compute", "30", "99", "0", "100", ""),
        *also("nvidia.com/use-gputype", "A100"),
        *also("hami.io/gpu-scheduler-policy", "binpack"),
        *also("gpu-fraction-limit", "0.5"),
        *also(OURS + "gpus", "1", "2", "3", "0", "17", ""),
        *also(OURS + "containers", "train=0.500", "train=0.250,proxy=0.250", "train=0.25", "x", ""),
        *also(OURS + "containers", "train=512Mi,proxy=512Mi", "train=1Gi", "train=1G"),
        *also("gpu-fraction-num-devices", "2"),
        *also(OURS + "injected", "default@x", ""),
        *also(OURS + "gpu-index", "0"),
        *also(OURS + "gpu-container", "train"),
        *also(OURS + "memory-mib", "40960"),
        *also(OURS + "reservation", "another"),
        *also(OURS + "slices", "4"),
        *also(OURS + "gpu-model", "A100*", "T4,H100", "none-such", "", "[x]", "x" * 300),
        *also(OURS + "min-gpu-memory", "1Gi", "60Gi", "1000Gi", "4G", ""),
        *also(OURS, "x"),
        *also("Clearml-injector/injected", "x"),
        *also("gpu-fraction", "0.5"),
        *also("gpu-memory", "5"),
        *also("kubernetes.io/config.mirror", "x"),
        *also("cdi.k8s.io/a", "nvidia.com/gpu=all"),
        *also("nvidia.cdi.k8s.io/b", "all"),
        *also("nvidia.cdi.k8s.io", "all"),
        *also("devices.nri.io/container.train", "all"),
        *also("io.kubernetes.cri-o.Devices", "/dev/nvidia0"),
        Also({f"{number}": "x" for number in range(1000)}),
    ],
    "_ReplicaMetadata.generate_name": [GONE, None, "train-", 5, "x" * 300, *TEXTS],
    "_ReplicaMetadata.owner_references": [
        GONE,
        None,
        [],
        [{"uid": "u-2", "controller": True}],
        [{"uid": "u-1"}, {"uid": "u-2", "controller": True}],
        ["x"],
        {},
    ],
    "OwnerReference.uid": [GONE, None, "u-2", 5, *TEXTS],
    "OwnerReference.controller": [GONE, None, True, False, "true"],
    "PodSpec.containers": [
        GONE,
        None,
        [],
        [CONTAINER],
        [CONTAINER, {"name": "two"}],
        [{"name": "gpu", "resources": {"limits": {"nvidia.com/gpu": "1"}}}, CONTAINER],
        [{"name": f"c-{number}"} for number in range(1000)],
    ],
    "PodSpec.init_containers": [
        GONE,
        None,
        [],
        [CONTAINER],
        [{"name": "mesh", "restartPolicy": "Always"}],
        [{"name": "gpu", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        [{"name": "gpu-limiter"}, CONTAINER],
    ],
    "PodSpec.volumes": [GONE, None, [], [{"name": "a"}], [{"name": f"v-{number}"} for number in range(1000)]],
    "PodSpec.host_pid": [GONE, None, True, False],
    "PodSpec.host_ipc": [GONE, None, True, False],
    "PodSpec.node_name": [GONE, None, "", "gpu-1"],
    "PodSpec.node_selector": [*SELECTORS, {f"a-{number}": "b" for number in range(101)}],
    "PodSpec.affinity": AFFINITIES,
    "PodSpec.tolerations": [
        GONE,
        None,
        [],
        [{"operator": "Exists"}],
        [{"key": "gpu", "operator": "Equal", "value": "", "effect": "NoSchedule"}],
        [{"key": "gpu", "operator": "Equal", "effect": "NoSchedule"}],
        [{"key": f"k-{number}"} for number in range(101)],
    ],
    "PodSpec.runtime_class_name": [GONE, None, "", "nvidia", "gvisor"],
    "PodSpec.resource_claims": [GONE, None, [], [{"name": "gpu"}], [CLAIM]],
    "ResourceClaim.name": [GONE, None, "", "gpu", CLAIM["name"]],
    "ResourceClaim.resource_claim_name": [GONE, None, "", "mine"],
    "ResourceClaim.resource_claim_template_name": [GONE, None, "", "anything"],
    "PodSpec.scheduling_gates": [
        GONE,
        None,
        [],
        [{"name": "example.com/wait"}],
        [{"name": "clearml-injector/quota"}],
        [{"name": 3}],
    ],
    "SchedulingGate.name": ["example.com/wait", "clearml-injector/quota", ""],
    "PodSpec.overhead": [GONE, None, {}, {"cpu": "1"}, {"cpu": "x"}],
    "PodSpec.resources": RESOURCES,
    "Container.name": [
        "train",
        "proxy",
        "clearml-id-1",
        "istio-proxy",
        "wait",
        *LIMITER,
        *("a" * n for n in (45, 46, 63, 64)),
        *TEXTS,
    ],
    "Container.image": [
        GONE,
        None,
        "example.com/b:2",
        "clearml/fractional-gpu:u22-cu12.3-8gb",
        "small:1",
        "docker.io/istio/proxyv2:1.24.0",
        "quay.io/argoproj/argoexec:v3.6.2",
        *TEXTS,
    ],
    "Container.env": [
        GONE,
        None,
        [],
        [{"name": "A"}],
        *([{"name": "A"}, {"name": name, "value": "x"}] for name in RESERVED),
        [{"name": "LD_PRELOAD", "value": "/a.so"}, {"name": "LD_PRELOAD", "valueFrom": {}}],
        [{"name": f"V_{number}", "value": "x"} for number in range(1000)],
    ],
    "Container.resources": RESOURCES,
    "Container.volume_mounts": [
        GONE,
        None,
        [],
        *([{"name": "a", "mountPath": path}] for path in PATHS),
        [{"name": "a", "mountPath": f"/{number}"} for number in range(1000)],
    ],
    "Container.volume_devices": [GONE, None, [], *([{"name": "a", "devicePath": path}] for path in PATHS)],
    "Container.termination_message_path": [GONE, None, *PATHS],
    "Container.security_context": [
        GONE,
        None,
        {},
        {"privileged": True},
        {"runAsUser": 0},
        *({"capabilities": {"add": [name]}} for name in CAPABILITIES),
    ],
    "Container.restart_policy": [GONE, None, "", "Always", "always", "OnFailure", "Never"],
    "SecurityContext.privileged": [GONE, None, True, False],
    "SecurityContext.capabilities": [GONE, None, {}, {"drop": ["ALL"]}, {"add": ["SYS_ADMIN"]}],
    "Capabilities.add": [GONE, None, [], *([name] for name in CAPABILITIES), ["NET_ADMIN", "ALL"]],
    "VolumeDevice.device_path": PATHS,
    "EnvEntry.name": VARIABLES,
    "EnvEntry.value": [GONE, None, "all", "/a.so", *TEXTS],
    "EnvEntry.value_from": [GONE, None, {}, {"configMapKeyRef": {"name": "a", "key": "b"}}],
    "VolumeMount.name": ["data", *LIMITER, *TEXTS],
    "VolumeMount.mount_path": PATHS,
    "Volume.name": [*LIMITER, *TEXTS],
    "Volume.host_path": [GONE, None, *({"path": path} for path in HOST_PATHS)],
    "HostPath.path": HOST_PATHS,
    "Resources.limits": AMOUNTS,
    "Resources.requests": AMOUNTS,
    "Resources.claims": [GONE, None, [], [{"name": "gpu"}], [{"name": CLAIM["name"]}]],
    "UsedClaim.name": [GONE, None, "", "gpu-fraction"],
    "UsedClaim.request": [GONE, None, "", "share", "gpu", "gpu-1"],
    "Affinity.node_affinity": NODE_AFFINITIES,
    "NodeAffinity.required": [GONE, None, {}, {"nodeSelectorTerms": [{}]}, {"nodeSelectorTerms": [TERM, {}]}],
    "NodeAffinity.preferred": [GONE, None, [], [{"weight": 1}]],
    "NodeSelector.node_selector_terms": [GONE, None, [], [{}], [TERM], [TERM] * 101],
    "NodeSelectorTerm.match_expressions": [
        GONE,
        None,
        [],
        TERM["matchExpressions"],
        [{"key": "a", "operator": "Exists"}],
    ],
    "NodeSelectorTerm.match_fields": [
        GONE,
        None,
        [],
        [{"key": "metadata.name", "operator": "In", "values": ["x"]}],
    ],
    "Requirement.key": ["other", "nvidia.com/gpu.memory", ""],
    "Requirement.operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "", "x"],
    "Requirement.values": [GONE, None, [], ["81920"], ["a", "b"], ["x"] * 1001],
    "Toleration.key": [GONE, None, "", "gpu", "x"],
    "Toleration.operator": [GONE, None, "Exists", "Equal", "x"],
    "Toleration.value": [GONE, None, "", "x"],
    "Toleration.effect": [GONE, None, "", "NoSchedule", "NoExecute"],
    "_Header.uid": ["another", *filter(is_uid, TEXTS)],
    "_Header.resource": [
        GONE,
        {"group": "", "version": "v1", "resource": "bindings"},
        {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"},
    ],
    "_Header.operation": [GONE, "", "UPDATE", "DELETE", "CONNECT"],
    "_Header.sub_resource": [GONE, None, "", "status", "ephemeralcontainers"],
    "_Header.namespace": [GONE, None, "", "other", "o'ther", *TEXTS],
    "_Header.dry_run": [GONE, None, True, False],
    "_Resource.group": ["", "apps"],
    "_Resource.resource": ["pods", "jobs", "bindings"],
}
