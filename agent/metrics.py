"""The agent's metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from agent.gpu import Gpu

PREFIX = "fraction_injector_agent_"
_RESULT, _GPU = ("resource", "result"), ("gpu", "uuid")


class AgentMetrics:
    """The agent's metrics in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"{PREFIX}{name}", text, _RESULT, registry=registry)

        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"{PREFIX}{name}", text, labels, registry=registry)

        self._allocations = counter(
            "allocations", "Allocate calls by resource and result: allocated or refused."
        )
        self._registrations = counter(
            "registrations", "Registrations with the kubelet by resource and result: registered or failed."
        )
        self._registered = gauge("registered", "Whether the kubelet counts a resource.", ("resource",))
        self._healthy = gauge("gpu_healthy", "Whether slices of a GPU are given to new pods.", _GPU)
        self._tells_xids = gauge("gpu_tells_xids", "Whether the driver tells of a GPU's errors (Xids).", _GPU)
        self._driver_limits_offered = gauge(
            "driver_limits_offered", "Whether the driver can hold containers to GPU memory."
        )
        self._driver_limits = gauge(
            "driver_limits", "Whether the driver holds containers that start to their shares."
        )

    def set_driver_limits(self, *, offered: bool, are_set: Callable[[], bool]) -> None:
        """Set whether the driver offers limits; `are_set` returns whether they are used now."""
        self._driver_limits_offered.set(offered)
        self._driver_limits.set_function(are_set)

    def add_resource(self, resource: str) -> None:
        """Create the metric series of a resource name."""
        for result in ("allocated", "refused"):
            self._allocations.labels(resource, result)
        for result in ("registered", "failed"):
            self._registrations.labels(resource, result)
        self._registered.labels(resource).set(0)

    def allocated(self, resource: str, result: str) -> None:
        """Count an Allocate call."""
        self._allocations.labels(resource, result).inc()

    def registered(self, resource: str, *, well: bool) -> None:
        """Count a registration, and set its result."""
        self._registrations.labels(resource, "registered" if well else "failed").inc()
        self.set_registered(resource, well=well)

    def set_registered(self, resource: str, *, well: bool) -> None:
        """Set whether the kubelet counts a resource."""
        self._registered.labels(resource).set(well)

    def set_tells_xids(self, gpu: Gpu, *, tells: bool) -> None:
        """Set whether the driver reports a GPU's errors."""
        self._tells_xids.labels(str(gpu.index), gpu.uuid).set(tells)

    def show_health(self, gpu: Gpu, is_healthy: Callable[[], bool]) -> None:
        """Show what `is_healthy` returns whenever the metrics are read."""
        self._healthy.labels(str(gpu.index), gpu.uuid).set_function(is_healthy)
