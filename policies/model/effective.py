"""The policy of one pod, compiled: every value is known, nothing is left to look up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ledger.placement_request import Demands, Quota
from modes.fraction import Fraction
from modes.mode import Mode
from policies.model.allowances import Allowances
from policies.model.sidecars import Sidecar

MAX_GPUS = 16
"""GPUs of one node of which a pod may ask a part, whatever the policy says."""
LimitsFrom = Literal["admission", "agent"]
"""Who holds a share to its GPU memory: the webhook, by what it writes into the pod, or the node's agent."""
ContainersOn = Literal["same-gpu", "any-gpu"]
"""Where containers that share a pod's part may be: on one GPU, or on several if none has room for all."""
GpuCores = Literal["ignore", "deny", "compute"]
"""What becomes of HAMi's nvidia.com/gpucores."""
COMPUTE_LIMIT = "CUDA_DEVICE_SM_LIMIT"
"""HAMi-core's variable for per cent of each GPU's compute."""
PRELOAD_FILE = "/etc/ld.so.preload"
"""By which the node agent loads the limiter's library also where a program drops LD_PRELOAD."""


class EnvVar(msgspec.Struct, frozen=True):
    """An environment variable of a GPU container; the value may hold placeholders (`placeholders.py`)."""

    name: str
    value: str


class InitContainer(msgspec.Struct, frozen=True):
    """The container that puts the limiter's library into the library volume before anything else runs."""

    image: str
    command: tuple[str, ...]
    env: tuple[EnvVar, ...]
    run_as_user: int
    image_pull_policy: str | None


class LibraryVolume(msgspec.Struct, frozen=True):
    """An emptyDir that the init container fills and GPU containers mount read-only."""

    mount_path: str
    size_limit: str


class CacheVolume(msgspec.Struct, frozen=True):
    """A writable emptyDir for each GPU container: the limiter's accounting file may not be shared."""

    mount_path: str
    size_limit: str


class ImageChoice(msgspec.Struct, frozen=True):
    """An image that limits itself, and the MiB it limits to."""

    mib: int
    image: str


@dataclass(frozen=True, slots=True)
class EffectiveLimiter:
    """What makes a fraction of GPU memory hard, for one mode. Whole GPUs get none of it."""

    name: str
    env: tuple[EnvVar, ...] = ()
    preload: str | None = None
    """Path of the library that goes first in LD_PRELOAD."""
    init_container: InitContainer | None = None
    library: LibraryVolume | None = None
    cache: CacheVolume | None = None
    host_pid: bool = False
    image_pattern: str | None = None
    """Regular expression whose one group is the GB that an image limits to; it must fit the share."""
    images: tuple[ImageChoice, ...] = ()
    """Images to choose from, largest first. Empty keeps the pod's own image."""
    agent_paths: tuple[str, ...] = ()
    """Where the node agent mounts what the webhook does not write; empty where the webhook does."""

    @property
    def mount_paths(self) -> tuple[str, ...]:
        """Paths in GPU containers that are the limiter's alone."""
        volumes = (self.library, self.cache)
        return self.agent_paths + tuple([volume.mount_path for volume in volumes if volume is not None])

    @property
    def is_preloaded(self) -> bool:
        """Whether it is a library in front of CUDA, which can be told to read other settings than ours."""
        return self.preload is not None or bool(self.agent_paths)

    def by_agent(self) -> EffectiveLimiter:
        """Return what is left to admission where the node agent puts the limiter in: its paths stay free."""
        return EffectiveLimiter(self.name, agent_paths=(*self.mount_paths, PRELOAD_FILE))

    def limit_of(self, image: str) -> int | None:
        """Return the MiB that an image limits itself to (the GB of its tag are GiB); None for any other."""
        match = re.fullmatch(self.image_pattern, image) if self.image_pattern else None
        gib = (match[1] or "") if match else ""
        return int(gib) * 1024 if re.fullmatch(r"[0-9]{1,6}", gib) else None

    def largest_image(self, share_mib: int) -> ImageChoice | None:
        """Return the first of `images` that limits to no more than the share."""
        return next((choice for choice in self.images if choice.mib <= share_mib), None)


NO_LIMITER = EffectiveLimiter("none")
"""Of whole GPUs and of MIG instances, which have no neighbour to protect."""


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """How many MiB pods may ask for by the label; 0 leaves a side open."""

    min_mib: int = 0
    max_mib: int = 0
    decimal: bool = False
    """Whether they may write them in M and G too."""


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """A quota with what becomes of it while the controller cannot be asked."""

    quota: Quota
    when_degraded: Literal["deny", "admit"]


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy of one namespace and queue."""

    name: str
    digest: str
    """Short hex digest of the whole policy set it came from."""
    slices_per_gpu: int
    fractions: Mapping[str, Fraction]
    """Label text, exactly as it must be written, to what it means."""
    mode: Mode
    """How a share is asked for, with the policy's resource name and what every other name means."""
    limiter: EffectiveLimiter
    env: tuple[EnvVar, ...]
    """The policy's own variables for GPU containers, after the limiter's."""
    reserve_mib: int
    container_names: tuple[str, ...]
    """Shell patterns of the container to choose when several could be meant, such as "clearml-id-*"."""
    hide_gpus_from_others: bool
    refuse_privileged: Literal["gpu-containers", "any-container"]
    runtime_class_name: str | None
    tolerations: tuple[Mapping[str, Any], ...]
    """Added when the pod has none equal; JSON as the Kubernetes API takes it."""
    quotas: tuple[QuotaRule, ...]
    allow: Allowances = field(default_factory=Allowances)
    """What of the refused by default its pods may bring."""
    protected_host_paths: tuple[str, ...] = ()
    """Places of a node that no hostPath volume may reach, beside those that are always protected."""
    sidecars: tuple[Sidecar, ...] = ()
    """Containers that are not meant by a label alone, beside those that are known."""
    memory: MemoryBounds | None = None
    """None where pods may ask for fractions only."""
    compute: str | int = "none"
    """Per cent of a GPU's compute that a preloaded limiter lets a container use."""
    aliases: frozenset[str] = frozenset()
    """Other systems whose ways to ask for a share are taken for ours: "kai", "hami"."""
    gpucores: GpuCores = "deny"
    """What becomes of HAMi's per cent of compute, where its pods are taken for ours."""
    max_gpus: int = MAX_GPUS
    """Different GPUs of which one pod may ask a part."""
    containers: ContainersOn = "same-gpu"
    """Where containers that share a pod's part may be."""
    queue: str | None = None
    """The queue entry that applied, if any."""
    gives_share: bool = True
    """Whether labelled pods get a share, or run without a GPU."""
    demands: Demands = field(default_factory=Demands)
    """What it demands of nodes and GPUs for its pods, which add their own."""
    limits_from: LimitsFrom = "admission"
    """Who holds a share to its GPU memory, and so who puts the limiter in."""
    instance_mode: Mode | None = None
    """The mode of instances, where pods may be given such: `mode` itself, or the one beside it."""
    left_out: tuple[str, ...] = ()
    """Texts of the contract that are no whole number of slices of this policy."""

    @property
    def writes_limits(self) -> bool:
        """Whether a share's MiB are decided at admission, so that they must be known and bind the pod."""
        return self.limits_from == "admission" and not self.mode.gives_instances

    marker: str = field(init=False)
    """Value of the annotation clearml-injector/injected."""
    written_limiter: EffectiveLimiter = field(init=False)
    """What the webhook writes of `limiter`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "marker", f"{self.name}@{self.digest}")
        written = self.limiter if self.writes_limits else self.limiter.by_agent()
        if self.mode.gives_instances:
            written = NO_LIMITER
        object.__setattr__(self, "written_limiter", written)
