"""The three kinds of policy files, as an admin writes them. Every key is described only here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from kube.dra import DriverName
from ledger.placement_request import MAX_ASSUMED_GPUS, Oversized
from modes.mode import DEFAULT_MODE, ModeName
from modes.registry import CLAIM_MODE
from policies.model.allowances import Capability, HostPath
from policies.model.effective import MAX_GPUS, ContainersOn, GpuCores, LimitsFrom, OtherScheduler
from policies.model.limiters import Limiter
from policies.model.problems import did_you_mean
from policies.model.types import (
    AbsolutePath,
    Count,
    DeviceClassName,
    DnsLabel,
    HarmlessResource,
    Json,
    Limit,
    MemoryText,
    Mib,
    MibLimit,
    Part,
    Period,
    PolicyEnv,
    SlicesPerGpu,
    Text,
)

AUTO: Any = "auto"
"""The mode of policies that leave it to the chart."""


def stated_mode(resources: Mapping[str, Any]) -> Any:
    """Return the mode of a policy's `resources`, or what its other keys are for; AUTO if it states none.

    `fraction-injector.statedMode` in the chart's templates is the same rule.
    """
    mode = resources.get("mode") or AUTO
    if mode == AUTO and resources.get("driver"):
        return CLAIM_MODE
    if mode == AUTO and (resources.get("name") or resources.get("prefer")):
        return DEFAULT_MODE
    return mode


Place = Literal["pack", "spread"]
WhenOverQuota = Literal["deny", "wait"]
ShareOf = Literal["label", "none"]
ReclaimIdle = Literal["never", "evict"]
Fractions = Annotated[dict[str, Count], Field(max_length=200)]
Prefer = Annotated[list[ModeName], Field(min_length=2, max_length=2)]
_Compute = Literal["none", "same-as-memory"]
_COMPUTE = get_args(_Compute)
_MODES = {"enum": [AUTO, *get_args(ModeName)], "type": "string"}


def _known_mode(mode: Any) -> Any:
    if mode not in _MODES["enum"]:
        named = ", ".join(_MODES["enum"])
        raise ValueError(f"must be one of {named}{did_you_mean(str(mode), _MODES['enum'])}")
    return mode


def _compute(given: Any) -> Any:
    if given not in _COMPUTE and (type(given) is not int or given not in range(1, 100)):
        raise ValueError(f"must be one of {', '.join(_COMPUTE)}, or a whole number from 1 to 99")
    return given


class ResourcesPart(Part):
    """How a share is written into the pod's limits."""

    mode: Annotated[ModeName, BeforeValidator(_known_mode), WithJsonSchema(_MODES)] = Field(default=AUTO)
    """`auto`: `dra` where the node agent offers shares of cards, else `per-gpu`; \
`per-gpu`: the GPU's index is part of the name; `pooled`: one name, the kubelet chooses the GPUs; \
`mig`: one MIG instance, the smallest that holds the share (docs/operating/mig.md); `dra`: a ResourceClaim, \
the scheduler chooses the card (docs/operating/dra.md)."""
    driver: DriverName | None = None
    """DRA driver of mode `dra`. `gpu.clearml-injector.io`, the default: the agent, which enforces the share \
on the node; `gpu.nvidia.com`: NVIDIA's, where the webhook writes limit and limiter into the pod."""
    prefer: Prefer | None = None
    """Both MIG instances and shares of the policy's `mode`, in order of preference, such as \
`[mig, per-gpu]` or `[dra, mig]`. Free room decides which a pod gets. Default: only `mode`."""
    oversized: Oversized = "wait"
    """When a pod takes a MIG instance of more than twice its request. `wait`: only if \
nothing else could ever hold it; `take`: as soon as nothing else has room."""
    name: Text | None = None
    """Extended resource. Default: `nvidia.com/gpu-{index}` for `per-gpu`, `nvidia.com/gpu` for `pooled`; \
do not set it for `mig` and `dra`."""

    @model_validator(mode="before")
    @classmethod
    def _decide(cls, given: Any) -> Any:
        """Return the part with the mode that `auto` means, unless the chart has written another."""
        if not isinstance(given, dict) or given.get("mode", AUTO) != AUTO:
            return given
        stated = stated_mode(given)
        return {**given, "mode": DEFAULT_MODE if stated == AUTO else stated}


class SidecarPart(Part):
    """A sidecar by name, image or both; if both are set, both must match. `*` matches anything."""

    name: Text | None = None
    """Name of the container."""
    image: Text | None = None
    """Image of the container, with registry and tag."""


class ContainerRule(Part):
    """Which container gets the GPU if the pod does not say."""

    names: list[Text] = Field(default_factory=lambda: ["clearml-id-*"])
    """Names to look for, with `*` for anything; used after the annotation, GPU limits and "the only one"."""
    sidecars: list[SidecarPart] = Field(default_factory=list)
    """Sidecars in addition to the known ones (docs/reference/sidecars.md): they get the GPU only by name."""


class Aliases(Part):
    """Other systems' requests for a share, which are read as ours on pods without our labels."""

    kai: bool = False
    """KAI's and Run:ai's annotations, such as `gpu-fraction`."""
    hami: bool = False
    """HAMi's resources `nvidia.com/gpumem` and `nvidia.com/gpumem-percentage`."""
    gpucores: GpuCores = "deny"
    """HAMi's `nvidia.com/gpucores`. `deny`: such pods are denied; `ignore`: it is removed; `compute`: it \
becomes the annotation `clearml-injector/compute`."""
    scheduler_name: OtherScheduler = "deny"
    """The name of their scheduler in such a pod. `deny`: the pod is denied; `remove`: the name is removed."""

    @property
    def systems(self) -> frozenset[str]:
        """The other GPU systems whose requests are translated."""
        return frozenset(name for name, value in self if value is True)


class Memory(Part):
    """GPU memory of a share."""

    reserve_mib: Annotated[int, Field(alias="reserveMiB", ge=0, le=100_000_000)] = 0
    """MiB subtracted from every share, for the driver itself."""
    allowed: bool | None = None
    """Whether pods may request memory by the label `clearml-injector/gpu-memory`. Default: only without \
a table of `fractions`."""
    min: MemoryText | None = None
    """Minimum that pods may request, such as `1Gi`."""
    max: MemoryText | None = None
    """Maximum that pods may request. Default: the memory of the GPUs."""
    decimal: bool = False
    """Accept whole `M` or `G` too: `4G` is 4,000,000,000 bytes, rounded down to 3814 MiB."""


class LimitsPart(Part):
    """What limits the GPU memory of a share."""

    source: Annotated[LimitsFrom, Field(alias="from")] = "admission"
    """`admission`: the webhook writes limit and limiter into the pod; `agent`: the node's agent adds both \
to the container, by its actual card, and the webhook writes neither (docs/getting-started/agent.md)."""


class Assume(Part):
    """Assumed nodes, for clusters that scale from zero."""

    gpus_per_node: Annotated[int, Field(ge=1, le=MAX_ASSUMED_GPUS)]
    """GPUs of one node."""
    gpu_memory_mib: Annotated[Mib, Field(alias="gpuMemoryMiB")]
    """MiB of one GPU, as in the future node label nvidia.com/gpu.memory."""


class TolerationPart(Part):
    """A toleration, as in a pod's spec."""

    key: Text | None = None
    """Key of the taint; without it every taint, with operator Exists."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: str | None = None
    """Value of the taint, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; without it every effect."""


class QuotaAmounts(Part):
    """Limits of one namespace or queue, for running and pending pods together."""

    slices: Limit | None = None
    """Slices, summed over all GPUs, and for mode `dra` eighths of GPUs; 0 closes the namespace or queue."""
    max_pods: Limit | None = None
    """Labelled pods; 0 closes the namespace or queue."""
    memory_mib: Annotated[MibLimit | None, Field(alias="memoryMiB")] = None
    """MiB of GPU memory, summed over all GPUs; 0 closes the namespace or queue."""

    @property
    def limits_anything(self) -> bool:
        """Whether any limit is set."""
        return any(amount is not None for amount in (self.slices, self.max_pods, self.memory_mib))


class Quotas(Part):
    """Limits of namespaces and ClearML queues."""

    namespaces: dict[DnsLabel, QuotaAmounts] = Field(default_factory=dict)
    """Limits by namespace."""
    queues: dict[Text, QuotaAmounts] = Field(default_factory=dict)
    """Limits by ClearML queue (as written in ClearML, or as its label)."""
    queue_max_pods: bool = False
    """Count each queue's own `queueSettings.maxPods` as a limit too."""
    when_over_quota: WhenOverQuota = "deny"
    """Pods over a quota: `deny`, or `wait` with the scheduling gate `clearml-injector/quota` until \
the controller removes it, by priority and age."""
    when_degraded: Literal["deny", "admit", "wait"] = "deny"
    """How pods under a quota are handled while the controller, which counts, cannot be reached. `wait` \
is only for `whenOverQuota: wait`."""


class Allow(Part):
    """Risky features that some legitimate pods need. Labelled pods that use others are denied."""

    host_paths: list[HostPath] = Field(default_factory=list)
    """Paths that hostPath volumes may reach, out of `/etc/kubernetes`, `/var/lib/kubelet`, \
`/etc/containerd`, `/etc/crio`, `/etc/rancher`, `/etc/nvidia-container-runtime`, `/run/cri-dockerd.sock`, \
`/usr/local/nvidia`, `/tmp/nvidia-mps`, `/sys`, `/var/lib/containerd`, `/var/lib/docker`, \
`/var/lib/containers`, `/var/lib/k0s`, `/var/lib/rancher`, `/var/snap/microk8s`, \
`/dev/infiniband` and `/dev/fuse`."""
    capabilities: list[Capability] = Field(default_factory=list)
    """Capabilities that GPU containers may add, out of `SYS_ADMIN` and `ALL`."""
    override_env: bool = False
    """Mounts at `/overrideEnv`, a file whose settings override HAMi-core's environment."""
    resources: list[HarmlessResource] = Field(default_factory=list)
    """Resources of `nvidia.com/` that give no access to a GPU, such as `nvidia.com/hostdev`."""
    host_ipc: Annotated[bool, Field(alias="hostIPC")] = False
    """The node's IPC namespace (`hostIPC`), which clients of the node's MPS daemon need."""
    device_classes: list[DeviceClassName] = Field(default_factory=list)
    """DeviceClasses that contain no GPU, such as `rdma.example.com`. A pod must name its claim of it \
`not-a-gpu-rdma-example-com`, with hyphens for dots; the chart's second lock checks its class."""


class Policy(Part):
    """How labelled pods are handled: allowed fractions, resource names, limiter, quotas."""

    kind: Literal["Policy"]
    """Always `Policy`."""
    name: DnsLabel
    """Name of the policy; the one named `default` must exist."""
    namespaces: list[DnsLabel] = Field(default_factory=list)
    """Namespaces whose pods follow this policy, unless their queue names another policy."""
    slices_per_gpu: SlicesPerGpu = 8
    """Slices of one GPU, equal to the device plugin's replicas: 2, 4, 8 or 16."""
    fractions: Fractions | None = None
    """Slices by label text, exactly as it must be written; `{}` allows none. A text that is no whole number \
of slices, such as "0.2", is rounded up and limited to its exact share. Default: "0.125" to "0.875"."""
    resources: ResourcesPart = Field(default_factory=ResourcesPart)
    """How a share is written into the pod's limits."""
    share: ShareOf = "label"
    """`label`: pods get the share in their label. `none`: label and GPU limits are removed, and pods run \
without a GPU."""
    max_gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)] = MAX_GPUS
    """Maximum number of GPUs of one node of which a pod may request the same part, by annotation \
`clearml-injector/gpus`. With 1, such pods are denied."""
    containers: ContainersOn = "same-gpu"
    """GPUs of containers that share a pod's part by annotation `clearml-injector/containers`. `same-gpu`: \
one for all; `any-gpu`: different ones of one node if no GPU has room for all. Modes per-gpu and dra."""
    limiter: DnsLabel = "hami-core"
    """Limiter: `hami-core`, `nvidia-driver`, `clearml-image`, `none`, or the name of your own."""
    env: PolicyEnv = Field(default_factory=dict)
    """Variables for GPU containers, in addition to the limiter's; placeholders are replaced."""
    limits: LimitsPart = Field(default_factory=LimitsPart)
    """What limits the GPU memory of a share."""
    compute: Annotated[_Compute | Annotated[int, Field(ge=1, le=99)], BeforeValidator(_compute)] = "none"
    """Percentage of a GPU's compute that HAMi-core lets a container use, or `same-as-memory` for that of \
its share. It slows a container down; it does not divide compute."""
    memory: Memory = Field(default_factory=Memory)
    """GPU memory of a share."""
    assume: Assume | None = None
    """Assumed nodes, for clusters that scale from zero. Default: none."""
    container: ContainerRule = Field(default_factory=ContainerRule)
    """Which container gets the GPU if the pod does not say."""
    hide_gpus_from_others: bool = True
    """Set `NVIDIA_VISIBLE_DEVICES=void` in containers without a GPU."""
    privileged: Literal["gpu-containers", "any-container"] = "gpu-containers"
    """Which privileged containers deny the pod, because they see every GPU."""
    allow: Allow = Field(default_factory=Allow)
    """Features, denied by default, that labelled pods may use."""
    protected_host_paths: Annotated[list[AbsolutePath], Field(max_length=50)] = Field(default_factory=list)
    """Further paths of the node that hostPath volumes of labelled pods may not reach, unless \
`allow.hostPaths` lists the same path. The chart adds the folders and sockets of `agent`."""
    aliases: Aliases = Field(default_factory=Aliases)
    """Other systems' requests for a share that are read as ours."""
    runtime_class_name: DnsLabel | None = None
    """Set on pods without a runtime class, such as `nvidia`."""
    tolerations: list[TolerationPart] = Field(default_factory=list)
    """Added to pods without an equal one; to label-only pods, Kubernetes itself adds none."""
    quotas: Quotas = Field(default_factory=Quotas)
    """Limits of namespaces and queues."""
    place: Place = "pack"
    """`pack`: keep room for other pods; `spread`: replicas of one owner over nodes first, then over GPUs."""
    same_model: bool = False
    """Give all pods of one owner GPUs of one model (labels gpu.product and gpu.memory): the first pod's."""
    idle_after: Period | None = None
    """Time without a kernel after which a pod's share is reported as idle, such as `30m` or `4h`; needs \
`agent.podMetrics`. Default: never."""
    reclaim_idle: ReclaimIdle = "never"
    """`evict`: evict pods whose share is idle, after a warning Event and `reclaimGrace`."""
    reclaim_grace: Period = "10m"
    """Time between the warning and the eviction, during which any kernel keeps the pod."""


class QueueSettings(Part, extra="ignore"):
    """The ClearML agent chart's `queueSettings`; only these keys are read."""

    max_pods: Count | None = None
    """Maximum number of the queue's pods; applies here too if the policy's `quotas.queueMaxPods` is true."""


class TemplateOverrides(Part, extra="ignore"):
    """The ClearML agent chart's `templateOverrides` or `basePodTemplate`; only these keys are read."""

    labels: Json = Field(default_factory=dict)
    """Labels of the queue's pods; those of the injector are checked."""


class QueueEntry(Part):
    """Differences for pods of one ClearML queue."""

    id: Text | None = None
    """The queue's id, as in the label clearml-agent-queue."""
    namespaces: Annotated[list[DnsLabel], Field(min_length=1)] | None = None
    """Namespaces in which the entry applies. Default: all; the entry may then relax nothing."""
    policy: DnsLabel | None = None
    """Policy to follow. Default: the policy of the pod's namespace, else `default`."""
    limiter: DnsLabel | None = None
    """Limiter instead of the policy's."""
    fractions: Fractions | None = None
    """Table instead of the policy's."""
    quota: QuotaAmounts | None = None
    """Limits of this queue instead of the policy's."""
    when_over_quota: WhenOverQuota | None = None
    """Pods of this queue over a quota: `deny` or `wait`, instead of the policy's `quotas.whenOverQuota`."""
    place: Place | None = None
    """Placement instead of the policy's."""
    same_model: bool | None = None
    """Whether each owner gets one GPU model, instead of the policy's setting."""
    idle_after: Period | None = None
    """Time without a kernel after which a share is idle, instead of the policy's."""
    reclaim_idle: ReclaimIdle | None = None
    """What becomes of pods of this queue whose share is idle: `never` or `evict`, instead of the policy's."""
    share: ShareOf | None = None
    """Share of labelled pods instead of the policy's; `none` for queues of ClearML's pipeline controllers."""
    prefer: Prefer | None = None
    """Order of MIG instances and shares instead of the policy's `resources.prefer`, which must be set."""
    template_overrides: TemplateOverrides = Field(default_factory=TemplateOverrides)
    """Pasted from the ClearML agent chart's values; checked, not applied."""
    queue_settings: QueueSettings = Field(default_factory=QueueSettings)
    """Pasted from the ClearML agent chart's values."""


class Queues(Part):
    """ClearML queues; the shape is the ClearML agent charts' `agentk8sglue`, with a few more keys."""

    kind: Literal["Queues"]
    """Always `Queues`."""
    base_pod_template: TemplateOverrides | None = None
    """Pasted from the ClearML agent chart's values, the template of all its queues; checked, not applied."""
    queues: dict[Text, QueueEntry] = Field(default_factory=dict)
    """Differences by queue (as written in ClearML, or as its label)."""


AnyKind = Annotated[Policy | Limiter | Queues, Field(discriminator="kind")]
KINDS: dict[str, type[Policy | Limiter | Queues]] = {"Policy": Policy, "Limiter": Limiter, "Queues": Queues}
