"""Metrics of the GPU memory and time that containers may use, and that they use."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.gpu import Gpu, GpuUse
from agent.metrics import PREFIX
from agent.shares import Share

_CONTAINER = ("namespace", "pod", "container", "gpu")
_GPU = ("gpu", "uuid")
_MIB = 1024 * 1024


class UsageMetrics:
    """The metrics of one measurement; what could not be measured has no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = _CONTAINER) -> Gauge:
            return Gauge(f"{PREFIX}{name}", text, labels, registry=registry)

        self._gpu_used = gauge("gpu_memory_used_bytes", "Memory of a GPU that is used.", _GPU)
        self._busy = gauge("gpu_utilisation_ratio", "Part of the time that a GPU was busy.", _GPU)
        self._slices = gauge("container_slices", "Slices of a GPU that a container holds, rounded up.")
        self._limit = gauge("container_memory_limit_bytes", "GPU memory that a container may use.")
        self._used = gauge(
            "container_memory_used_bytes", "GPU memory that a container's processes use; by the driver."
        )
        self._peak = gauge(
            "container_memory_peak_bytes",
            "Most GPU memory that a container was seen to use, measured every 15 s.",
        )
        self._hour = gauge(
            "container_utilisation_ratio",
            "Part of the last hour that kernels of a container ran, by the driver.",
        )
        self._unlimited = gauge(
            "container_unlimited_processes",
            "Processes on a GPU, in a container with a limited share, that have no limiter loaded.",
        )

    def clear(self) -> None:
        """Remove all series."""
        for each in vars(self).values():
            each.clear()

    def set_gpu(self, gpu: Gpu, use: GpuUse) -> None:
        """Set the use of one GPU."""
        self._gpu_used.labels(str(gpu.index), gpu.uuid).set(use.used_mib * _MIB)
        self._busy.labels(str(gpu.index), gpu.uuid).set(use.utilisation_percent / 100)

    def set_memory_used(self, name: ContainerName, gpu: int, mib: int) -> None:
        """Set the GPU memory that a container's processes use, whether or not it has a share."""
        self._used.labels(*_labels(name, gpu)).set(mib * _MIB)

    def set_share(self, name: ContainerName, share: Share) -> None:
        """Set the slices that a container holds, and its limit of GPU memory."""
        labels = _labels(name, share.gpu.index)
        self._slices.labels(*labels).set(share.slices)
        self._limit.labels(*labels).set(share.usable_mib * _MIB)

    def set_uses(self, uses: Iterable[ContainerUse]) -> None:
        """Set the GPU memory that containers with a share use and have used at most, and their GPU time."""
        for each in uses:
            labels = _labels(each.name, each.gpu)
            self._used.labels(*labels).set(each.used_mib * _MIB)
            self._peak.labels(*labels).set(each.peak_mib * _MIB)
            if each.busy_percent is not None:
                self._hour.labels(*labels).set(each.busy_percent / 100)

    def count_unlimited(self, name: ContainerName, gpu: int, *, has_limiter: bool) -> None:
        """Count a process of a limited share, as unlimited if it has no limiter loaded."""
        self._unlimited.labels(*_labels(name, gpu)).inc(not has_limiter)


def _labels(name: ContainerName, gpu: int) -> tuple[str, str, str, str]:
    return name.namespace, name.pod, name.container, str(gpu)
