"""The limiters of policy files, as an admin writes them."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from modes.mode import ModeName
from policies.model.types import (
    AbsolutePath,
    DnsLabel,
    DnsName,
    EnvName,
    ImagePattern,
    LimiterEnv,
    Part,
    PinnedImage,
    Size,
)


class InitContainerPart(Part):
    """Copies the limiter's library into the pod before all other containers run."""

    image: PinnedImage
    """Image with the library, pinned to a tag or digest. Required unless the limiter `extends` one."""
    command: Annotated[list[str], Field(min_length=1)]
    """Command that copies the library into `library.mountPath`; placeholders are not replaced. \
Required unless the limiter `extends` one."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Its variables. Set `NVIDIA_VISIBLE_DEVICES: void`, so that it requests no GPU."""
    run_as_user: Annotated[int, Field(ge=1, le=2**31 - 1)] = 65534
    """Its user; never 0, because Pod Security `restricted` rejects root."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Its pull policy. Default: Kubernetes' own."""
    image_pull_secrets: Annotated[list[DnsName], Field(max_length=4)] = Field(default_factory=list)
    """Secrets of its registry, added to those of the pod. Each must exist in the pods' namespaces."""


class VolumePart(Part):
    """An emptyDir of the limiter."""

    mount_path: AbsolutePath
    """Mount path."""
    size_limit: Size
    """Its size limit, such as `8Mi`."""


class ImagePart(Part):
    """For images that limit themselves: the limit of each image."""

    pattern: ImagePattern
    """Regular expression for the whole image reference, with one group: the GB that the image limits to."""


class ModePart(Part):
    """Settings of one mode."""

    env: LimiterEnv = Field(default_factory=dict)
    """Variables that are added to the common ones, or replace them."""


class Modes(Part):
    """Settings by mode."""

    per_gpu: ModePart = Field(default_factory=ModePart, alias="per-gpu")
    """In per-gpu mode."""
    pooled: ModePart = Field(default_factory=ModePart)
    """In pooled mode."""
    dra: ModePart = Field(default_factory=ModePart)
    """In dra mode with NVIDIA's driver; the agent's driver adds the limiter itself."""
    mig: ModePart = Field(default_factory=ModePart)
    """In mig mode, where pods get no limiter: leave it out."""

    def of(self, mode: ModeName) -> ModePart:
        """Return the part of one mode."""
        part: ModePart = getattr(self, mode.replace("-", "_"))
        return part


Extensible = Literal["hami-core"]
"""Presets with an init container. The others have nothing to change except the limit itself."""
EXTENSIBLE = get_args(Extensible)


class Limiter(Part):
    """What enforces a fraction of GPU memory. Whole GPUs get no limiter."""

    kind: Literal["Limiter"]
    """Always `Limiter`."""
    name: DnsLabel
    """Name that policies use; a preset's name replaces the preset."""
    extends: Extensible | None = None
    """Preset for all keys that this file leaves out; it may set only `needs` and `initContainer`."""
    needs: list[str] = Field(default_factory=list)
    """Requirements on nodes, images and namespaces, shown by `check` and `policy show`."""
    env: LimiterEnv = Field(default_factory=dict)
    """Variables of GPU containers; placeholders are replaced."""
    modes: Modes = Field(default_factory=Modes)
    """Settings by mode."""
    ld_preload: AbsolutePath | None = None
    """Library that comes first in LD_PRELOAD, before the user's own."""
    library: VolumePart | None = None
    """emptyDir that the init container fills; GPU containers mount it read-only."""
    cache: VolumePart | None = None
    """Writable emptyDir, one for each GPU container."""
    init_container: InitContainerPart | None = None
    """Copies the library into the pod."""
    host_pid: bool = Field(default=False, alias="hostPID")
    """Set hostPID on the pod. Pod Security `baseline` rejects such pods."""
    image: ImagePart | None = None
    """For images that limit themselves."""
