"""Values, ordinary and adverse, for every field of a pod or of its request that a decision can read.

When a rule reads a new field, list its possible values here (tests/webhook/test_damage.py).
"""

from typing import Any, NamedTuple

from kube.device_keys import ENVIRONMENT, names_of
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
RESERVED = [*names_of(ENVIRONMENT, "removed", "removed-from-gpu-containers", "joined"), "LD_PRELOAD"]
RESERVED = [name.replace("*", "_0") for name in RESERVED]
VARIABLES = [*RESERVED, "WHERE", "PATH", "ld_preload", "LD_PRELOAD ", "CUDA_", "x" * 200, *TEXTS]
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
GPU_INIT = {"name": "gpu", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
OF_OPTIONAL: dict[str, list[Any]] = {
    "Pod.metadata": [{}, {"labels": {}}, {"labels": LABELS}, {"labels": LABELS, "annotations": {}}],
    "Pod.spec": [{}, {"containers": []}, {"containers": [CONTAINER]}],
    "ObjectMeta.name": ["train", "proxy", "clearml-id-1", *TEXTS],
    "ObjectMeta.labels": [
        *also(LABEL, "0.250", "0.5", "1.000", "2", "0.2", "0.95", "", "0.500 ", "é"),
        *also(MEMORY_LABEL, "4Gi", "4G", ""),
        *({MEMORY_LABEL: text} for text in ("4Gi", "700Mi", "79Gi", "4G", "0", "", "4Gi ", "999999999Gi")),
        *also("clearml-agent-queue-name", "large", "LARGE", "none-such", ""),
        *also("clearml-agent-queue", "id-1", "id-2", ""),
        *also("app%b", *TEXTS),
        {},
        LABELS,
    ],
    "ObjectMeta.annotations": [
        {},
        *also("note", *TEXTS),
        *also(OURS + "container", "train", "proxy", "none-such", ""),
        *also("kubectl.kubernetes.io/default-container", "train", "proxy", "istio-proxy", "none-such", ""),
        *also(OURS + "compute", "30", "99", "0", "100", ""),
        *also("nvidia.com/use-gputype", "A100"),
        *also("hami.io/gpu-scheduler-policy", "binpack"),
        *also("gpu-fraction-limit", "0.5"),
        *also("nvidia.com/container.train.gpu-memory.request", "4Gi"),
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
        *(Also({key: "0.5"}) for key in (OURS, "Clearml-injector/injected", "gpu-fraction", "gpu-memory")),
        *(Also({key: "all"}) for key in ("kubernetes.io/config.mirror", "cdi.k8s.io/a", "nvidia.cdi.k8s.io")),
        *(Also({key: "x"}) for key in ("devices.nri.io/container.train", "io.kubernetes.cri-o.Devices")),
        Also({f"{number}": "x" for number in range(1000)}),
    ],
    "ObjectMeta.generate_name": ["train-", 5, "x" * 300, *TEXTS],
    "ObjectMeta.owner_references": [
        [],
        [{"uid": "u-1"}, {"uid": "u-2", "controller": True}],
        ["x"],
        {},
    ],
    "OwnerReference.uid": ["u-2", 5, *TEXTS],
    "OwnerReference.controller": [True, False, "true"],
    "PodSpec.containers": [
        [],
        [CONTAINER, {"name": "two"}],
        [GPU_INIT, CONTAINER],
        [{"name": f"c-{number}"} for number in range(1000)],
    ],
    "PodSpec.init_containers": [
        [],
        [{"name": "mesh", "restartPolicy": "Always"}],
        [GPU_INIT],
        [{"name": "gpu-limiter"}, CONTAINER],
    ],
    "PodSpec.volumes": [[], [{"name": "a"}], [{"name": f"v-{number}"} for number in range(1000)]],
    "PodSpec.host_pid": [True, False],
    "PodSpec.host_ipc": [True, False],
    "PodSpec.node_name": ["", "gpu-1"],
    "PodSpec.node_selector": [*SELECTORS[2:], {f"a-{number}": "b" for number in range(101)}],
    "PodSpec.affinity": AFFINITIES[2:],
    "PodSpec.tolerations": [
        [],
        [{"operator": "Exists"}],
        [{"key": "gpu", "operator": "Equal", "value": "", "effect": "NoSchedule"}],
        [{"key": f"k-{number}"} for number in range(101)],
    ],
    "PodSpec.runtime_class_name": ["", "nvidia", "gvisor"],
    "PodSpec.resource_claims": [[], [{"name": "gpu"}], [CLAIM]],
    "PodSpec.scheduling_gates": [[], [{"name": "clearml-injector/quota"}], [{"name": 3}]],
    "PodSpec.scheduler_name": ["", "kai-scheduler"],
    "PodSpec.image_pull_secrets": [[], [{"name": "mirror"}], [{"name": 3}], [{}]],
    "PodSpec.overhead": [{}, {"cpu": "1"}, {"cpu": "x"}],
    "PodSpec.resources": RESOURCES[2:],
    "ResourceClaim.name": ["", "gpu", CLAIM["name"]],
    "ResourceClaim.resource_claim_name": ["", "mine"],
    "ResourceClaim.resource_claim_template_name": ["", "anything"],
    "Container.image": [*IMAGES, "docker.io/istio/proxyv2:1.24.0", *TEXTS],
    "Container.env": [
        [],
        *([{"name": "A"}, {"name": name, "value": "x"}] for name in RESERVED),
        [{"name": "LD_PRELOAD", "value": "/a.so"}, {"name": "LD_PRELOAD", "valueFrom": {}}],
        [{"name": f"V_{number}", "value": "x"} for number in range(1000)],
    ],
    "Container.resources": RESOURCES[2:],
    "Container.volume_mounts": [
        [],
        *([{"name": "a", "mountPath": path}] for path in PATHS),
        [{"name": "a", "mountPath": f"/{number}"} for number in range(1000)],
    ],
    "Container.volume_devices": [[], *([{"name": "a", "devicePath": path}] for path in PATHS)],
    "Container.termination_message_path": PATHS,
    "Container.security_context": [
        {},
        {"privileged": True},
        *({"capabilities": {"add": [name]}} for name in CAPABILITIES),
    ],
    "Container.restart_policy": ["", "Always", "always", "OnFailure", "Never"],
    "SecurityContext.privileged": [True, False],
    "SecurityContext.capabilities": [{}, {"drop": ["ALL"]}, {"add": ["SYS_ADMIN"]}],
    "Capabilities.add": [[], *([name] for name in CAPABILITIES), ["NET_ADMIN", "ALL"]],
    "EnvEntry.value": ["all", "/a.so", *TEXTS],
    "EnvEntry.value_from": [{}, {"configMapKeyRef": {"name": "a", "key": "b"}}],
    "Volume.host_path": [{"path": path} for path in HOST_PATHS],
    "Resources.limits": AMOUNTS[2:],
    "Resources.requests": AMOUNTS[2:],
    "Resources.claims": [[], [{"name": "gpu"}], [{"name": CLAIM["name"]}]],
    "UsedClaim.name": ["", "gpu-fraction"],
    "UsedClaim.request": ["", "share", "gpu", "gpu-1"],
    "Affinity.node_affinity": NODE_AFFINITIES[2:],
    "NodeAffinity.required": [{}, {"nodeSelectorTerms": [{}]}, {"nodeSelectorTerms": [TERM, {}]}],
    "NodeAffinity.preferred": [[], [{"weight": 1}]],
    "NodeSelector.node_selector_terms": [[], [{}], [TERM], [TERM] * 101],
    "NodeSelectorTerm.match_expressions": [
        [],
        TERM["matchExpressions"],
        [{"key": "a", "operator": "Exists"}],
    ],
    "NodeSelectorTerm.match_fields": [[], [{"key": "metadata.name", "operator": "In", "values": ["x"]}]],
    "Requirement.values": [[], ["81920"], ["a", "b"], ["x"] * 1001],
    "Toleration.key": ["", "gpu", "x"],
    "Toleration.operator": ["Exists", "Equal", "x"],
    "Toleration.value": ["", "x"],
    "Toleration.effect": ["", "NoSchedule", "NoExecute"],
    "_Header.sub_resource": ["", "status", "ephemeralcontainers"],
    "_Header.namespace": ["", "other", "o'ther", *TEXTS],
    "_Header.dry_run": [True, False],
}
VALUES: dict[str, list[Any]] = {
    **{field: [GONE, None, *values] for field, values in OF_OPTIONAL.items()},
    "SchedulingGate.name": ["example.com/wait", "clearml-injector/quota", ""],
    "Container.name": ["train", "proxy", "clearml-id-1", "istio-proxy", "wait", *LIMITER, *LONG, *TEXTS],
    "VolumeDevice.device_path": PATHS,
    "EnvEntry.name": VARIABLES,
    "VolumeMount.name": ["data", *LIMITER, *TEXTS],
    "VolumeMount.mount_path": PATHS,
    "Volume.name": [*LIMITER, *TEXTS],
    "HostPath.path": HOST_PATHS,
    "Requirement.key": ["other", "nvidia.com/gpu.memory", ""],
    "Requirement.operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "", "x"],
    "_Header.uid": ["another", *filter(is_uid, TEXTS)],
    "_Header.resource": [GONE, {"group": "", "version": "v1", "resource": "bindings"}],
    "_Header.operation": [GONE, "", "UPDATE", "DELETE", "CONNECT"],
    "_Resource.group": ["", "apps"],
    "_Resource.resource": ["pods", "jobs", "bindings"],
}
