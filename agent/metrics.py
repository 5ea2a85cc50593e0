"""The agent's metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "fraction_injector_agent_"


class AgentMetrics:
    """The agent's metrics in the registry of its process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._allocations = Counter(
            f"{PREFIX}allocations",
            "Allocate calls by resource and result: allocated or refused.",
            ["resource", "result"],
            registry=registry,
        )
        self._registrations = Counter(
            f"{PREFIX}registrations",
            "Registrations with the kubelet by resource and result: registered or failed.",
            ["resource", "result"],
            registry=registry,
        )
        self._registered = Gauge(
            f"{PREFIX}registered", "Whether the kubelet counts a resource.", ["resource"], registry=registry
        )
        self._healthy = Gauge(
            f"{PREFIX}gpu_healthy",
            "Whether slices of a GPU are given to new pods.",
            ["gpu", "uuid"],
            registry=registry,
        )
        self._tells_xids = Gauge(
            f"{PREFIX}gpu_tells_xids",
            "Whether the driver tells of a GPU's errors (Xids).",
            ["gpu", "uuid"],
            registry=registry,
        )
        self._driver_limits_offered = Gauge(
            f"{PREFIX}driver_limits_offered",
            "Whether the driver can hold containers to GPU memory.",
            registry=registry,
        )
        self._driver_limits = Gauge(
            f"{PREFIX}driver_limits",
            "Whether the driver holds containers that start to their shares.",
            registry=registry,
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

    def set_tells_xids(self, gpu: int, uuid: str, *, tells: bool) -> None:
        """Set whether the driver reports a GPU's errors."""
        self._tells_xids.labels(str(gpu), uuid).set(tells)

    def set_healthy(self, gpu: int, uuid: str, *, healthy: bool) -> None:
        """Set the health of a GPU."""
        self._healthy.labels(str(gpu), uuid).set(healthy)
