"""The extended resources that mean GPUs: one name per GPU index or MIG profile, or one for a whole node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from kube.names import GPU_RESOURCE, GPU_RESOURCE_PREFIX, MAX_GPU_INDEX_DIGITS, SHARED_GPU_RESOURCE
from modes.units import POOL, Unit, profile_of_resource

INDEX = "{index}"
"""Placeholder for a GPU's index in `resources.name`."""
ONE_GPU_RESOURCE = GPU_RESOURCE_PREFIX + INDEX
_CANONICAL = re.compile(rf"0|[1-9][0-9]{{0,{MAX_GPU_INDEX_DIGITS - 1}}}", re.ASCII)


@dataclass(frozen=True)
class ResourceNames:
    """The names that the ledger counts. It ignores every other resource except CPU and memory."""

    per_gpu_prefix: str = GPU_RESOURCE_PREFIX
    """The part before the index: "nvidia.com/gpu-" in "nvidia.com/gpu-3"."""
    pooled: tuple[str, ...] = (GPU_RESOURCE, SHARED_GPU_RESOURCE)

    def unit(self, resource: str) -> Unit | None:
        """Return what a name means; None for other names."""
        if not resource.startswith(self.per_gpu_prefix):
            return POOL if resource in self._pooled else profile_of_resource(resource)
        # One character more than an index can have shows that it is not an index; longer text is not cached.
        index = _index(resource[len(self.per_gpu_prefix) :][: MAX_GPU_INDEX_DIGITS + 1])
        return POOL if index is None and resource in self._pooled else index

    def counts(self, resource: str) -> bool:
        """Whether the ledger counts the resource."""
        return self.unit(resource) is not None

    @cached_property
    def _pooled(self) -> frozenset[str]:
        return frozenset(self.pooled)


def per_gpu_names(gpu_resource: str) -> ResourceNames:
    """Return the names to count where one GPU's slices have this name, such as "nvidia.com/gpu-{index}".

    Raises:
        ValueError: the name has no place for an index.
    """
    prefix, found, rest = gpu_resource.partition(INDEX)
    if not found or rest:
        raise ValueError(f'"{gpu_resource}" must end in {INDEX}, as in {ONE_GPU_RESOURCE}')
    return ResourceNames(per_gpu_prefix=prefix)


def prefix_of(resource: str) -> str:
    """Return the part before the index in a `resources.name` such as "nvidia.com/gpu-{index}"."""
    return resource.removesuffix(INDEX)


@lru_cache(maxsize=512)
def _index(digits: str) -> int | None:
    return int(digits) if _CANONICAL.fullmatch(digits) else None
