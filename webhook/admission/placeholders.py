"""Values of the placeholders of limiters and policies in one pod."""

from __future__ import annotations

from collections.abc import Mapping

from modes.fraction import Fraction
from policies.model.effective import EnvVar
from policies.model.placeholders import fill, used

MEMORY = "memory_mib"
_CONTAINER = "{container}"
_OF_ONE_GPU = ("CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_SM_LIMIT_")
"""Prefixes of HAMi-core's limits of one GPU, followed by its number in the container."""


class Filled:
    """Variables of a share, with every placeholder filled in except the container's name."""

    def __init__(
        self,
        variables: tuple[EnvVar, ...],
        fraction: Fraction,
        indices: tuple[int, ...],
        memory_mib: int | None,
        namespace: str,
    ) -> None:
        """Fill in; without `memory_mib` (as for whole GPUs) omit variables that use it."""
        values = {
            "slices": str(fraction.slices_on_each),
            "slices_per_gpu": str(fraction.slices_per_gpu),
            "percent": str(fraction.percent),
            "index": ",".join(map(str, indices)),
            "namespace": namespace,
        }
        if memory_mib is not None:
            values[MEMORY] = str(memory_mib)
        self._parts = {
            variable.name: [
                fill(part, values) if "{" in part else part for part in variable.value.split(_CONTAINER)
            ]
            for variable in variables
            if memory_mib is not None or MEMORY not in used(variable.value)
        }
        for device in range(1, fraction.gpus):
            self._parts |= _of_device(self._parts, device)

    def of(self, container: str) -> dict[str, str]:
        """Return the variables of one container."""
        return {name: container.join(parts) for name, parts in self._parts.items()}


def _of_device(variables: Mapping[str, list[str]], device: int) -> dict[str, list[str]]:
    """Return the limits of another GPU: those of the first, unless the variables set others."""
    numbered = {f"{prefix}{device}": variables.get(f"{prefix}0") for prefix in _OF_ONE_GPU}
    return {name: parts for name, parts in numbered.items() if parts is not None and name not in variables}
