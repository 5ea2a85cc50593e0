"""How pods may request a share, in policy files: the container, other systems' syntax."""

from __future__ import annotations

from pydantic import Field

from policies.model.effective import GpuCores
from policies.model.types import Part, Text


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
    """KAI's and Run:ai's annotations `gpu-fraction`, `gpu-memory` and `gpu-fraction-num-devices`."""
    hami: bool = False
    """HAMi's resources `nvidia.com/gpumem` and `nvidia.com/gpumem-percentage`."""
    gpucores: GpuCores = "deny"
    """HAMi's `nvidia.com/gpucores`. `deny`: such pods are denied; `ignore`: it is removed; `compute`: it \
becomes the annotation `clearml-injector/compute`."""

    @property
    def systems(self) -> frozenset[str]:
        """The other GPU systems whose requests are translated."""
        return frozenset(name for name, value in self if value is True)
