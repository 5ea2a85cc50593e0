"""How pods may ask for a share, in policy files: which container is meant, and other systems' words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.model.effective import GpuCores
from policies.model.sidecars import MAX_SIDECARS
from policies.model.types import Part, Text


class SidecarPart(Part):
    """A sidecar, by name, image or both, which must then both match; `*` stands for anything."""

    name: Text | None = None
    """Its name."""
    image: Text | None = None
    """Its image, with registry and tag."""


class ContainerRule(Part):
    """Which container gets the GPU when the pod itself does not say."""

    names: list[Text] = Field(default_factory=lambda: ["clearml-id-*"])
    """Names to look for, `*` standing for anything; asked after annotation, GPU limits and "the only one"."""
    sidecars: Annotated[list[SidecarPart], Field(max_length=MAX_SIDECARS)] = Field(default_factory=list)
    """Sidecars in addition to the known ones (docs/reference/sidecars.md): they get it only by name."""


class Aliases(Part):
    """Other systems' ways to ask for a share, taken for ours on pods without our labels."""

    kai: bool = False
    """KAI's and Run:ai's annotations `gpu-fraction`, `gpu-memory` and `gpu-fraction-num-devices`."""
    hami: bool = False
    """HAMi's resources `nvidia.com/gpumem` and `nvidia.com/gpumem-percentage`."""
    gpucores: GpuCores = "deny"
    """HAMi's `nvidia.com/gpucores`. `deny`: such pods are denied; `ignore`: it is left out; `compute`: it \
becomes the annotation `clearml-injector/compute`."""

    @property
    def systems(self) -> frozenset[str]:
        """Those that are on."""
        return frozenset(name for name, is_on in (("kai", self.kai), ("hami", self.hami)) if is_on)
