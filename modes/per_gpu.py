"""Mode per-gpu: one resource name per GPU; k of nvidia.com/gpu-3 is exactly k slices of GPU 3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kube.names import GPU_RESOURCE_PREFIX, MAX_GPU_INDEX_DIGITS, NVIDIA_DOMAIN
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_names import STANDARD_INDEX, policy_name_problem, taken_name_problem
from modes.mode import GpuCount, Mode, ModeName
from modes.resource_kinds import ResourceKinds
from modes.resource_names import INDEX, prefix_of


@dataclass(frozen=True)
class PerGpu(Mode):
    """The placement chooses the GPU; its index is part of the resource name."""

    name: ClassVar[ModeName] = "per-gpu"
    default_resource: ClassVar[str] = GPU_RESOURCE_PREFIX + "{index}"
    prices_node_classes: ClassVar[bool] = True
    chooses_gpus: ClassVar[bool] = True
    unknown_placeholders: ClassVar[frozenset[str]] = frozenset()
    several_gpus_problem: ClassVar[str | None] = None

    @cached_property
    def kinds(self) -> ResourceKinds:
        """The policy's own names and the standard ones mean single GPUs, whichever the policy uses."""
        own = f"{re.escape(prefix_of(self.resource))}[0-9]+"
        return ResourceKinds(
            f"{own}|{STANDARD_INDEX}", None, self.counted, self.allowed, self.instance_prefix
        )

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:
        """Return the slices of each chosen index.

        Raises:
            ValueError: no index was chosen; the pod would run without a GPU and without a limit.
        """
        if not indices:
            raise ValueError("a share in mode per-gpu needs the index of a GPU")
        each = str(fraction.slices_on_each)
        return {self.resource.replace(INDEX, str(index)): each for index in indices}

    @staticmethod
    def read_indices(text: str | None, fraction: Fraction) -> tuple[int, ...] | None:
        """Return one index for each GPU of the fraction; the text lists them sorted, separated by commas."""
        parts = (text or "").split(",", fraction.gpus)
        if len(parts) != fraction.gpus or not all(
            part.isascii() and part.isdigit() and len(part) <= MAX_GPU_INDEX_DIGITS for part in parts
        ):
            return None
        indices = tuple(sorted({int(part) for part in parts}))
        return indices if len(indices) == fraction.gpus and ",".join(map(str, indices)) == text else None

    def share_text(self, fraction: Fraction) -> str:
        """Say how many slices a pod takes, of one GPU or of each of several."""
        if fraction.gpus == 1 or fraction.is_of_memory:
            return super().share_text(fraction)
        each, resource = fraction.slices_on_each, self.resource.replace(INDEX, "<i>")
        return f"{fraction.slices} slices: {each} of each of {fraction.gpus} {resource}"

    @staticmethod
    def name_problem(resource: str) -> str | None:
        """Return why the text cannot produce names of single GPUs; None if it can."""
        if resource.count(INDEX) != 1 or not resource.endswith(INDEX):
            return f"must end in {INDEX} in mode per-gpu"
        return policy_name_problem(prefix_of(resource) + "0") or taken_name_problem(prefix_of(resource))

    @staticmethod
    def index_prefix(resource: str) -> str:
        """Return the part before the index."""
        return prefix_of(resource)

    @staticmethod
    def gpu_count(node: NodeFact) -> GpuCount | None:
        """Count the GPUs that have their own resource name."""
        gpus = len(node.gpus)
        return (gpus, node.slices_per_gpu) if gpus else None

    def operator_problem(self) -> str | None:
        """Return a problem if the device plugin cannot have the policy's names."""
        if self.resource.startswith(NVIDIA_DOMAIN):
            return None
        return f"resources.name {self.resource}: NVIDIA's device plugin names begin with {NVIDIA_DOMAIN}"
