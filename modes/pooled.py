"""Mode pooled: one resource name for all GPUs of a node; the kubelet chooses the devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kube.names import GKE_GPU_SHARING_LABEL, GPU_RESOURCE, GPU_SHARING_LABEL
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_names import STANDARD_INDEX, WHOLE_GPU_NAMES, policy_name_problem, taken_name_problem
from modes.mode import GpuCount, Mode, ModeName
from modes.resource_kinds import ResourceKinds


@dataclass(frozen=True)
class Pooled(Mode):
    """The kubelet chooses the GPUs, so slices of one pod may be on several."""

    name: ClassVar[ModeName] = "pooled"
    default_resource: ClassVar[str] = GPU_RESOURCE
    prices_node_classes: ClassVar[bool] = False
    unknown_placeholders: ClassVar[frozenset[str]] = frozenset({"index"})
    several_gpus_problem: ClassVar[str | None] = (
        "in mode pooled the kubelet chooses the GPUs, perhaps one for all slices: request a share of one"
    )
    # These fail a container that requests more than one slice. No label states that NVIDIA's plugin does so
    # with failRequestsGreaterThanOne.
    refusing_labels: ClassVar[Mapping[str, str]] = {
        GPU_SHARING_LABEL: "mps",
        GKE_GPU_SHARING_LABEL: "time-sharing",
    }

    @cached_property
    def kinds(self) -> ResourceKinds:
        """The policy's name means the pool; names of single GPUs are known only to be denied."""
        return ResourceKinds(STANDARD_INDEX, self.resource, self.counted, self.allowed, self.instance_prefix)

    @property
    def pool(self) -> str:
        """The policy's name."""
        return self.resource

    @classmethod
    def refusing_nodes(cls, fraction: Fraction) -> Mapping[str, str]:
        """Return the labels of nodes that accept at most one slice for each container."""
        return cls.refusing_labels if max(fraction.split, default=fraction.slices) > 1 else {}

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:  # noqa: ARG002 the kubelet chooses
        """Return the slices of the node's pool."""
        return {self.resource: str(fraction.slices)}

    @staticmethod
    def name_problem(resource: str) -> str | None:
        """Return why the pool cannot have the name; None if it can."""
        problem = policy_name_problem(resource)
        if problem is None:
            return taken_name_problem(resource)
        return f"{problem}; {{index}} belongs to mode per-gpu" if "{" in resource else problem

    @staticmethod
    def gpu_count(node: NodeFact) -> GpuCount | None:
        """Count the GPUs behind the node's pool; 0 if no label states them."""
        if not (node.pool or node.pooled):
            return None
        return node.pooled_gpus, node.pooled // max(1, node.pooled_gpus)

    def operator_problem(self) -> str | None:
        """Return a problem if time slicing cannot advertise the policy's name."""
        if self.resource in WHOLE_GPU_NAMES:
            return None
        return (
            f"resources.name {self.resource}: time slicing advertises nvidia.com/gpu, or, when it renames,"
            " nvidia.com/gpu.shared; use one of the two"
        )
