"""Values of the placeholders of limiters and policies in one pod."""

from __future__ import annotations

from collections.abc import Mapping

from modes.fraction import Fraction
from policies.model.effective import EnvVar

MEMORY = "memory_mib"
_OF_ONE_GPU = ("CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_SM_LIMIT_")
"""Prefixes of HAMi-core's limits of one GPU, followed by its number in the container."""


class Filled:
    """Variables of a share, whose placeholders are filled in for each container."""

    def __init__(
        self,
        variables: tuple[EnvVar, ...],
        fraction: Fraction,
        indices: tuple[int, ...],
        memory_mib: int | None,
        namespace: str,
    ) -> None:
        """Without `memory_mib` (as for whole GPUs) variables that use it are left out."""
        self._values = {
            "slices": fraction.slices_on_each,
            "slices_per_gpu": fraction.slices_per_gpu,
            "percent": fraction.percent,
            "index": ",".join(map(str, indices)),
            "namespace": namespace,
            MEMORY: memory_mib,
        }
        unknown = f"{{{MEMORY}}}" if memory_mib is None else None
        self._texts = {
            each.name: each.value for each in variables if unknown is None or unknown not in each.value
        }
        for device in range(1, fraction.gpus):
            self._texts |= _of_device(self._texts, device)

    def of(self, container: str) -> dict[str, str]:
        """Return the variables of one container."""
        values = {**self._values, "container": container}
        return {name: text.format_map(values) for name, text in self._texts.items()}


def _of_device(variables: Mapping[str, str], device: int) -> dict[str, str]:
    """Return the limits of another GPU: those of the first, unless the variables set others."""
    numbered = {f"{prefix}{device}": variables.get(f"{prefix}0") for prefix in _OF_ONE_GPU}
    return {name: text for name, text in numbered.items() if text is not None and name not in variables}
