"""The three kinds of policy files, as an admin writes them. Every key is described here and nowhere else."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from ledger.placement_request import MAX_ASSUMED_GPUS, Oversized
from modes.fraction import ALLOWED_SLICES_PER_GPU
from modes.mode import DEFAULT_MODE, ModeName
from policies.model.allowances import Capability, HostPath
from policies.model.asking import Aliases, ContainerRule
from policies.model.effective import MAX_GPUS, ContainersOn, LimitsFrom
from policies.model.types import (
    AbsolutePath,
    Count,
    DeviceClassName,
    DnsLabel,
    Duration,
    EnvName,
    ImagePattern,
    Json,
    Limit,
    LimiterEnv,
    MemoryText,
    Mib,
    MibLimit,
    Part,
    PinnedImage,
    PolicyEnv,
    Size,
    Text,
)

Place = Literal["pack", "spread"]
ShareOf = Literal["label", "none"]
Fractions = Annotated[dict[str, Count], Field(max_length=200)]


Prefer = Annotated[list[ModeName], Field(min_length=2, max_length=2)]


class ResourcesPart(Part):
    """How a share is written into the pod's limits."""

    mode: ModeName = DEFAULT_MODE
    """`per-gpu`: the GPU's number is part of the name; `pooled`: one name, the kubelet chooses the GPUs; \
`mig`: one MIG instance, the smallest that holds the share (docs/operating/mig.md)."""
    prefer: Prefer | None = None
    """Both slices and MIG instances, in the order of preference: `[mig, per-gpu]` or `[per-gpu, mig]`, with \
the `mode` of slices. Room decides which a pod gets. Default: only `mode`."""
    oversized: Oversized = "wait"
    """When a pod takes a MIG instance of more than twice what it asks for. `wait`: only where \
nothing else could ever hold it; `take`: as soon as nothing else has room."""
    name: Text | None = None
    """Extended resource. Default: `nvidia.com/gpu-{index}` for `per-gpu`, `nvidia.com/gpu` for `pooled`; \
none may be given for `mig`."""


class Memory(Part):
    """GPU memory that a share comes to."""

    reserve_mib: Annotated[int, Field(alias="reserveMiB", ge=0, le=100_000_000)] = 0
    """MiB taken off every share, for what the driver itself needs."""
    allowed: bool | None = None
    """Whether pods may ask for memory by the label `clearml-injector/gpu-memory`. Default: only where no \
table of `fractions` says what they may ask for."""
    min: MemoryText | None = None
    """Least that they may ask for, such as `1Gi`."""
    max: MemoryText | None = None
    """Most that they may ask for. Default: what the GPUs hold."""
    decimal: bool = False
    """Take decimal amounts too, whole `M` or `G`: `4G` is 4,000,000,000 bytes, rounded down to 3814 MiB."""


class LimitsPart(Part):
    """Who holds a share to its GPU memory."""

    source: Annotated[LimitsFrom, Field(alias="from")] = "admission"
    """`admission`: the webhook writes limit and limiter into the pod; `agent`: the node's agent hands both \
to the container, by the very card, and the webhook writes neither (docs/getting-started/agent.md)."""


class Assume(Part):
    """What to take for granted of nodes that do not exist yet, in clusters that scale from zero."""

    gpus_per_node: Annotated[int, Field(ge=1, le=MAX_ASSUMED_GPUS)]
    """GPUs of one node."""
    gpu_memory_mib: Annotated[Mib, Field(alias="gpuMemoryMiB")]
    """MiB of one GPU, as the node label nvidia.com/gpu.memory will say."""


class TolerationPart(Part):
    """A toleration, as in a pod's spec."""

    key: Text | None = None
    """Key of the taint; absent means every taint, with operator Exists."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: str | None = None
    """Value of the taint, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; absent means every effect."""


class QuotaAmounts(Part):
    """What one namespace or queue may hold, running and pending together."""

    slices: Limit | None = None
    """Slices, summed over all GPUs; 0 shuts the namespace or queue."""
    max_pods: Limit | None = None
    """Labelled pods; 0 shuts the namespace or queue."""
    memory_mib: Annotated[MibLimit | None, Field(alias="memoryMiB")] = None
    """MiB of GPU memory, summed over all GPUs; 0 shuts the namespace or queue."""

    @property
    def limits_anything(self) -> bool:
        """Whether one of them is given."""
        return any(amount is not None for amount in (self.slices, self.max_pods, self.memory_mib))


class Quotas(Part):
    """Limits on what namespaces and ClearML queues may hold."""

    namespaces: dict[DnsLabel, QuotaAmounts] = Field(default_factory=dict)
    """Namespace to its limits."""
    queues: dict[Text, QuotaAmounts] = Field(default_factory=dict)
    """ClearML queue (as written, or as its label) to its limits."""
    queue_max_pods: bool = False
    """Count each queue's own `queueSettings.maxPods` as a limit too."""
    when_degraded: Literal["deny", "admit"] = "deny"
    """What becomes of pods under a quota while the controller, who counts, cannot be asked."""


class Allow(Part):
    """Ways past the share that some honest pods need: refused beside the label unless they stand here."""

    host_paths: list[HostPath] = Field(default_factory=list)
    """Of `/etc/kubernetes`, `/var/lib/kubelet`, `/etc/containerd`, `/etc/crio`, `/etc/rancher`, \
`/etc/nvidia-container-runtime`, `/run/cri-dockerd.sock`, `/usr/local/nvidia`, `/sys`, \
`/var/lib/containerd`, `/var/lib/docker`, `/var/lib/containers`, `/var/lib/k0s`, `/var/lib/rancher`, \
`/var/snap/microk8s`, `/dev/infiniband` and `/dev/fuse`: those that hostPath volumes may reach."""
    capabilities: list[Capability] = Field(default_factory=list)
    """Of `SYS_ADMIN` and `ALL`: those that GPU containers may add."""
    override_env: bool = False
    """Mounts at `/overrideEnv`, a file that HAMi-core believes more than its environment."""
    resources: list[Text] = Field(default_factory=list)
    """Resources of `nvidia.com/` that are no way to a GPU, such as `nvidia.com/hostdev`."""
    host_ipc: Annotated[bool, Field(alias="hostIPC")] = False
    """The node's IPC namespace (`hostIPC`), which clients of an MPS daemon of the node need."""
    device_classes: list[DeviceClassName] = Field(default_factory=list)
    """DeviceClasses of what is no GPU, such as `rdma.example.com`. A pod calls its claim of that class \
`not-a-gpu-rdma-example-com`, with hyphens for dots; the chart's second lock sees that it is of no other."""


class ReplaceWaiting(Part):
    """Delete pods that wait on their index while another GPU has room, where a controller creates others."""

    after: Duration
    """How long a pod must have waited, such as `10s` or `2m`."""

    @property
    def seconds(self) -> float:
        """`after` in seconds."""
        return float(self.after[:-1]) * (60.0 if self.after.endswith("m") else 1.0)


class Policy(Part):
    """What becomes of labelled pods: which fractions, of which resource, limited how."""

    kind: Literal["Policy"]
    """Always `Policy`."""
    name: DnsLabel
    """Name of the policy; the one named `default` must exist."""
    namespaces: list[DnsLabel] = Field(default_factory=list)
    """Namespaces whose pods follow this policy, unless their queue names another."""
    slices_per_gpu: int = Field(default=8, json_schema_extra={"enum": list(ALLOWED_SLICES_PER_GPU)})
    """Slices of one GPU, as many as the device plugin's replicas: 2, 4, 8 or 16."""
    fractions: Fractions | None = None
    """Label text, exactly as it must be written, to slices; `{}` allows none. A text between two numbers of \
slices, such as "0.2", takes the larger one and is limited to its exact share. Default: "0.125" to "0.875"."""
    resources: ResourcesPart = Field(default_factory=ResourcesPart)
    """How a share is written into the pod's limits."""
    share: ShareOf = "label"
    """`label`: pods get what their label says. `none`: label and GPU limits are taken out, and they run \
without a GPU."""
    max_gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)] = MAX_GPUS
    """GPUs of one node of which one pod may ask the same part by annotation `clearml-injector/gpus`. \
1: such pods are denied."""
    containers: ContainersOn = "same-gpu"
    """GPUs of containers that share a pod's part by annotation `clearml-injector/containers`. `same-gpu`: \
one for all; `any-gpu`: where no GPU has room for all of them, different ones of one node. Mode per-gpu."""
    limiter: DnsLabel = "hami-core"
    """Limiter: `hami-core`, `nvidia-driver`, `clearml-image`, `none`, or the name of your own."""
    env: PolicyEnv = Field(default_factory=dict)
    """Variables for GPU containers beside the limiter's; placeholders are replaced."""
    limits: LimitsPart = Field(default_factory=LimitsPart)
    """Who holds a share to its GPU memory."""
    compute: Literal["none", "same-as-memory"] | Annotated[int, Field(ge=1, le=99)] = "none"
    """Per cent of a GPU's compute that HAMi-core lets a container use, or `same-as-memory` for its share's. \
A brake, no division."""
    memory: Memory = Field(default_factory=Memory)
    """GPU memory that a share comes to."""
    assume: Assume | None = None
    """What to take for granted of nodes that do not exist yet. Default: nothing."""
    container: ContainerRule = Field(default_factory=ContainerRule)
    """Which container gets the GPU when the pod itself does not say."""
    hide_gpus_from_others: bool = True
    """Give containers without a GPU `NVIDIA_VISIBLE_DEVICES=void`."""
    privileged: Literal["gpu-containers", "any-container"] = "gpu-containers"
    """Which privileged containers deny the pod: they see every GPU."""
    allow: Allow = Field(default_factory=Allow)
    """What labelled pods may bring although it is refused by default."""
    protected_host_paths: Annotated[list[AbsolutePath], Field(max_length=50)] = Field(default_factory=list)
    """Further places of the node that hostPath volumes of labelled pods may not reach, unless \
`allow.hostPaths` names the very same. The chart adds the folders and sockets of `agent`."""
    aliases: Aliases = Field(default_factory=Aliases)
    """Other systems' ways to ask for a share that are taken for ours."""
    runtime_class_name: DnsLabel | None = None
    """Set on pods that name no runtime class, such as `nvidia`."""
    tolerations: list[TolerationPart] = Field(default_factory=list)
    """Added to pods that have none equal; label-only pods get none from Kubernetes itself."""
    quotas: Quotas = Field(default_factory=Quotas)
    """Limits on what namespaces and queues may hold."""
    place: Place = "pack"
    """`pack`: where least room is lost; `spread`: replicas of one owner over nodes first, then over GPUs."""
    same_model: bool = False
    """Give all pods of one owner GPUs of one model (labels gpu.product and gpu.memory), the first pod's."""
    replace_waiting: ReplaceWaiting | None = None
    """Delete pods of ReplicaSets and StatefulSets that wait on their index while another GPU has room. \
Default: never."""


class InitContainerPart(Part):
    """Copies the limiter's library into the pod before anything else runs."""

    image: PinnedImage
    """Image with the library, pinned to a tag or digest. Needed unless the limiter `extends` one."""
    command: Annotated[list[str], Field(min_length=1)]
    """Command that copies the library into `library.mountPath`; taken as it is, without placeholders. \
Needed unless the limiter `extends` one."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Its variables. Say `NVIDIA_VISIBLE_DEVICES: void`, so that it asks for no GPU."""
    run_as_user: Annotated[int, Field(ge=1, le=2**31 - 1)] = 65534
    """Its user; never 0, because Pod Security `restricted` refuses root."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Its pull policy; absent leaves it to Kubernetes."""


class VolumePart(Part):
    """An emptyDir of the limiter."""

    mount_path: AbsolutePath
    """Where it is mounted."""
    size_limit: Size
    """Its size limit, such as `8Mi`."""


class ImagePart(Part):
    """For images that limit themselves: which image limits to how much."""

    pattern: ImagePattern
    """Regular expression for the whole image reference; its one group is the GB that the image limits to."""
    choices: dict[PinnedImage, Mib] = Field(default_factory=dict)
    """Image to the MiB it limits to; the largest that fits the share replaces the pod's own."""


class ModePart(Part):
    """What differs in one mode."""

    env: LimiterEnv = Field(default_factory=dict)
    """Variables beside, or instead of, the common ones."""


class Modes(Part):
    """What differs between the modes."""

    per_gpu: ModePart = Field(default_factory=ModePart, alias="per-gpu")
    """In per-gpu mode."""
    pooled: ModePart = Field(default_factory=ModePart)
    """In pooled mode."""
    mig: ModePart = Field(default_factory=ModePart)
    """In mig mode, which gives pods nothing of a limiter: leave it out."""

    def of(self, mode: ModeName) -> ModePart:
        """Return the part of one mode."""
        parts: dict[ModeName, ModePart] = {"per-gpu": self.per_gpu, "pooled": self.pooled, "mig": self.mig}
        return parts[mode]


Extensible = Literal["hami-core"]
"""Presets with an init container: of the others there is nothing to change but the limit itself."""
EXTENSIBLE = get_args(Extensible)


class Limiter(Part):
    """What makes a fraction of GPU memory hard. Whole GPUs get none of it."""

    kind: Literal["Limiter"]
    """Always `Limiter`."""
    name: DnsLabel
    """Name by which policies ask for it; a preset's name replaces the preset."""
    extends: Extensible | None = None
    """Preset that gives what this file leaves out; only `needs` and `initContainer` stand beside it."""
    needs: list[str] = Field(default_factory=list)
    """What nodes, images and namespaces must offer; shown by `policy check` and `policy show`."""
    env: LimiterEnv = Field(default_factory=dict)
    """Variables of GPU containers; placeholders are replaced."""
    modes: Modes = Field(default_factory=Modes)
    """What differs between the modes."""
    ld_preload: AbsolutePath | None = None
    """Library that goes first in LD_PRELOAD, before the user's own."""
    library: VolumePart | None = None
    """emptyDir that the init container fills; GPU containers mount it read-only."""
    cache: VolumePart | None = None
    """Writable emptyDir, one for each GPU container."""
    init_container: InitContainerPart | None = None
    """Copies the library into the pod."""
    host_pid: bool = Field(default=False, alias="hostPID")
    """Set hostPID on the pod. Pod Security `baseline` refuses such pods."""
    image: ImagePart | None = None
    """For images that limit themselves."""


class QueueSettings(Part, extra="ignore"):
    """The ClearML agent chart's own `queueSettings`; other keys are the chart's."""

    max_pods: Count | None = None
    """Pods of the queue at a time; a limit here too if the policy's `quotas.queueMaxPods` is true."""


class TemplateOverrides(Part, extra="ignore"):
    """The ClearML agent chart's own `templateOverrides` or `basePodTemplate`; other keys are the chart's."""

    labels: Json = Field(default_factory=dict)
    """Labels of the queue's pods; the fraction label is checked."""
    resources: Json = Field(default_factory=dict)
    """Resources of the queue's pods; GPU limits are checked against the label."""


class QueueEntry(Part):
    """What is different for pods of one ClearML queue."""

    id: Text | None = None
    """The queue's id, as the label clearml-agent-queue holds it."""
    namespaces: Annotated[list[DnsLabel], Field(min_length=1)] | None = None
    """Namespaces in which the entry applies. Default: all, and then it may relax nothing."""
    policy: DnsLabel | None = None
    """Policy to follow. Default: the one of the pod's namespace, else `default`."""
    limiter: DnsLabel | None = None
    """Limiter instead of the policy's."""
    fractions: Fractions | None = None
    """Table instead of the policy's."""
    quota: QuotaAmounts | None = None
    """Limits of this queue instead of the policy's."""
    place: Place | None = None
    """Placement instead of the policy's."""
    same_model: bool | None = None
    """One GPU model for each owner, or not, instead of as the policy says."""
    share: ShareOf | None = None
    """Share of labelled pods instead of the policy's; `none` for queues of ClearML's pipeline controllers."""
    prefer: Prefer | None = None
    """Order of slices and MIG instances instead of the policy's `resources.prefer`, which must be given."""
    template_overrides: TemplateOverrides = Field(default_factory=TemplateOverrides)
    """Pasted from the ClearML agent chart's values; checked, not applied."""
    queue_settings: QueueSettings = Field(default_factory=QueueSettings)
    """Pasted from the ClearML agent chart's values."""


class Queues(Part):
    """ClearML queues; the shape is the ClearML agent charts' `agentk8sglue`, with a few keys more."""

    kind: Literal["Queues"]
    """Always `Queues`."""
    base_pod_template: TemplateOverrides | None = None
    """Pasted from the ClearML agent chart's values, its one template for all queues; checked, not applied."""
    queues: dict[Text, QueueEntry] = Field(default_factory=dict)
    """Queue (as written in ClearML, or as its label) to what is different for its pods."""


AnyKind = Annotated[Policy | Limiter | Queues, Field(discriminator="kind")]
KINDS: dict[str, type[Policy | Limiter | Queues]] = {"Policy": Policy, "Limiter": Limiter, "Queues": Queues}
