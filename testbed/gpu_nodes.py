"""Node objects as GPU feature discovery and a device plugin leave them; KWOK keeps them alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SLICES_PER_GPU = 8


@dataclass(frozen=True, slots=True)
class GpuNode:
    """What a test says of a node.

    Attributes:
        gpus: Physical GPUs, each of which is shared by `SLICES_PER_GPU` replicas.
        memory_mib: Of one GPU.
        product: As in the label `nvidia.com/gpu.product`.
        pooled: All replicas under `nvidia.com/gpu` instead of one name per GPU.
        instances: MIG instances by resource name, under strategy `single` as `nvidia.com/gpu`.
        labels: More labels.
        taints: As in spec.taints.
    """

    gpus: int = 1
    memory_mib: int = 81920
    product: str = "NVIDIA-A100-SXM4-80GB"
    cpu: str = "64"
    memory: str = "256Gi"
    pooled: bool = False
    instances: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()

    def manifest(self, name: str) -> dict[str, Any]:
        """The Node object; KWOK makes it ready."""
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": "200", **self._replicas()}
        # Pods whose limiter has an emptyDir may ask for some of it.
        amounts["ephemeral-storage"] = "1Ti"
        amounts |= {name: str(count) for name, count in self.instances.items()}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**self._labels(name), **self.labels}},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": amounts, "allocatable": amounts},
        }

    def _replicas(self) -> dict[str, str]:
        if self.pooled:
            return {"nvidia.com/gpu": str(self.gpus * SLICES_PER_GPU)}
        return {f"nvidia.com/gpu-{index}": str(SLICES_PER_GPU) for index in range(self.gpus)}

    def _labels(self, name: str) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(self.gpus),
            "nvidia.com/gpu.memory": str(self.memory_mib),
            "nvidia.com/gpu.product": self.product,
        }


def schedulable(node: Mapping[str, Any]) -> bool:
    """Whether the node controller has taken away the taint that every new node begins with."""
    taints = node["spec"].get("taints", [])
    return all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)
