"""The compiled policy of one pod: all values are resolved."""

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
from policies.model.limiters import InitContainerPart, VolumePart
from policies.model.sidecars import Sidecar

MAX_GPUS = 16
"""Maximum number of GPUs that a pod may share on one node, under any policy."""
LimitsFrom = Literal["admission", "agent"]
"""What limits the GPU memory of a share: fields that the webhook writes into the pod, or the node's agent."""
ContainersOn = Literal["same-gpu", "any-gpu"]
"""GPUs of containers that share a pod's part: one GPU, or several if none has room for all."""
GpuCores = Literal["ignore", "deny", "compute"]
"""How HAMi's nvidia.com/gpucores is handled."""
OtherScheduler = Literal["deny", "remove"]
"""How the name of another system's scheduler is handled, which would not place the pod."""
COMPUTE_LIMIT = "CUDA_DEVICE_SM_LIMIT"
"""HAMi-core's variable for the percentage of each GPU's compute."""
PRELOAD_FILE = "/etc/ld.so.preload"
"""File with which the node agent loads the limiter's library even if a program drops LD_PRELOAD."""


class EnvVar(msgspec.Struct, frozen=True):
    """An environment variable of a GPU container; the value may hold placeholders (`placeholders.py`)."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class EffectiveLimiter:
    """What enforces a fraction of GPU memory in one mode. Whole GPUs get no limiter."""

    name: str
    env: tuple[EnvVar, ...] = ()
    preload: str | None = None
    """Path of the library that comes first in LD_PRELOAD."""
    init_container: InitContainerPart | None = None
    library: VolumePart | None = None
    """The init container fills it, and GPU containers mount it read-only."""
    cache: VolumePart | None = None
    """Writable, one for each GPU container: containers cannot share the limiter's accounting file."""
    host_pid: bool = False
    image_pattern: str | None = None
    """Regular expression with one group: the GB that an image limits to, which must fit the share."""
    agent_paths: tuple[str, ...] = ()
    """Paths where the node agent mounts the limiter; empty if the webhook writes it."""

    @property
    def mount_paths(self) -> tuple[str, ...]:
        """Paths in GPU containers that are reserved for the limiter."""
        volumes = (self.library, self.cache)
        return self.agent_paths + tuple([volume.mount_path for volume in volumes if volume is not None])

    @property
    def is_preloaded(self) -> bool:
        """Whether it is a library before CUDA, which could be made to read other settings than ours."""
        return self.preload is not None or bool(self.agent_paths)

    def by_agent(self) -> EffectiveLimiter:
        """Return what the webhook writes if the node agent adds the limiter: only its paths are reserved."""
        return EffectiveLimiter(self.name, agent_paths=(*self.mount_paths, PRELOAD_FILE))

    def limit_of(self, image: str) -> int | None:
        """Return the MiB to which an image limits itself (GB in its tag are GiB); None for other images."""
        match = re.fullmatch(self.image_pattern, image) if self.image_pattern else None
        gib = (match[1] or "") if match else ""
        return int(gib) * 1024 if re.fullmatch(r"[0-9]{1,6}", gib) else None


NO_LIMITER = EffectiveLimiter("none")
"""Limiter of whole GPUs and of MIG instances, which share with no neighbour."""


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """The MiB that pods may request by the label; 0 means no bound."""

    min_mib: int = 0
    max_mib: int = 0
    decimal: bool = False
    """Whether amounts in M and G are allowed too."""


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """A quota, and how pods under it are handled while the controller cannot be reached."""

    quota: Quota
    when_degraded: Literal["deny", "admit", "wait"]


@dataclass(frozen=True, slots=True)
class IdleRule:
    """When a share is idle, and what becomes of its pod."""

    after_seconds: int
    """Time without a kernel."""
    evicts: bool = False
    grace_seconds: int = 0
    """Time between the warning and the eviction."""


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy of one namespace and queue."""

    name: str
    digest: str
    """Short hex digest of the policy set that it comes from."""
    slices_per_gpu: int
    fractions: Mapping[str, Fraction]
    """Meaning of each label text, exactly as it must be written."""
    mode: Mode
    """The mode, with the policy's resource name and the meaning of all other names."""
    limiter: EffectiveLimiter
    env: tuple[EnvVar, ...]
    """The policy's own variables for GPU containers, set after the limiter's."""
    reserve_mib: int
    container_names: tuple[str, ...]
    """Shell patterns that choose one of several possible containers, such as "clearml-id-*"."""
    hide_gpus_from_others: bool
    refuse_privileged: Literal["gpu-containers", "any-container"]
    runtime_class_name: str | None
    tolerations: tuple[Mapping[str, Any], ...]
    """Added unless the pod has an equal one; JSON as the Kubernetes API accepts it."""
    quotas: tuple[QuotaRule, ...]
    allow: Allowances = field(default_factory=Allowances)
    """Features, denied by default, that its pods may use."""
    protected_host_paths: tuple[str, ...] = ()
    """Paths of a node that no hostPath volume may reach, in addition to those that are always protected."""
    sidecars: tuple[Sidecar, ...] = ()
    """Containers that a label does not choose, in addition to the known sidecars."""
    memory: MemoryBounds | None = None
    """None if pods may request only fractions."""
    compute: str | int = "none"
    """Percentage of a GPU's compute that a preloaded limiter lets a container use."""
    aliases: frozenset[str] = frozenset()
    """Other systems whose requests are read as ours: "kai", "hami"."""
    gpucores: GpuCores = "deny"
    """How HAMi's percentage of compute is handled, if its requests are read as ours."""
    other_scheduler: OtherScheduler = "deny"
    max_gpus: int = MAX_GPUS
    """Maximum number of different GPUs that one pod may share."""
    containers: ContainersOn = "same-gpu"
    """GPUs of containers that share a pod's part."""
    queue: str | None = None
    """The queue entry that applied, if any."""
    gives_share: bool = True
    """Whether labelled pods get a share, or run without a GPU."""
    demands: Demands = field(default_factory=Demands)
    """The policy's demands on nodes and GPUs; each pod adds its own."""
    limits_from: LimitsFrom = "admission"
    """What limits the GPU memory of a share, and thus adds the limiter."""
    instance_mode: Mode | None = None
    """The mode of MIG instances if pods may get them: `mode` itself, or the other preferred mode."""
    idle: IdleRule | None = None
    """When a share is idle; None if that is not reported."""

    @property
    def writes_limits(self) -> bool:
        """Whether a share's MiB are fixed at admission, so that they must be known and restrict the pod."""
        return self.limits_from == "admission" and self.mode.needs_limiter

    marker: str = field(init=False)
    """Value of the annotation clearml-injector/injected."""
    written_limiter: EffectiveLimiter = field(init=False)
    """The part of `limiter` that the webhook writes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "marker", f"{self.name}@{self.digest}")
        written = self.limiter if self.writes_limits else self.limiter.by_agent()
        if not self.mode.needs_limiter:
            written = NO_LIMITER
        object.__setattr__(self, "written_limiter", written)
