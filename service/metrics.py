"""The metrics registry of this process; each package declares its own metrics in it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from service.log import lost_lines
from service.version import VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Bucket bounds of histograms in seconds, from a quick decision to one that waits."""


def new_registry() -> CollectorRegistry:
    """Make a registry with the process's own metrics (CPU, memory, garbage collection)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    labels = {"version": VERSION, "python": platform.python_version()}
    registry.register(LostLines())
    registry.register(Info("build", "Always 1: what runs.", tuple(labels), lambda: tuple(labels.values())))
    return registry


class LostLines(Collector):
    """Counts the lines of the log that were lost."""

    def collect(self) -> Iterator[Metric]:
        """Make the one series."""
        metric = CounterMetricFamily(
            "fraction_injector_log_lines_lost", "Log lines lost because standard error did not take them."
        )
        metric.add_metric((), lost_lines())
        yield metric


class Info(Collector):
    """A metric that carries information in its labels; its value is always 1.

    Args:
        name: the part between `fraction_injector_` and `_info`.
        documentation: its help.
        labels: names of its labels.
        values: returns their current values; None while there are none.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, ...],
        values: Callable[[], tuple[str, ...] | None],
    ) -> None:
        self._name = f"fraction_injector_{name}_info"
        self._documentation = documentation
        self._labels = labels
        self._values = values

    def collect(self) -> Iterator[Metric]:
        """Make the one series."""
        metric = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        if (values := self._values()) is not None:
            metric.add_metric(values, 1)
        yield metric


POLICY_INFO = "fraction_injector_policy_info"
POLICY_SINCE = "fraction_injector_policy_in_force_since_timestamp_seconds"


class PolicySince(Collector):
    """When the current policy set came into force.

    Args:
        since: returns it in Unix seconds; None while there is no set.
    """

    def __init__(self, since: Callable[[], float | None]) -> None:
        self._since = since

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        documentation = "When the policy set in force came into force in this process, in Unix seconds."
        family = GaugeMetricFamily(POLICY_SINCE, documentation)
        if (since := self._since()) is not None:
            family.add_metric((), since)
        yield family


def policy_info(digest: Callable[[], str | None]) -> Info:
    """Make the metric that names the policy set in force, by the digest that pods carry too."""

    def values() -> tuple[str, ...] | None:
        found = digest()
        return (found,) if found is not None else None

    return Info("policy", "Always 1: digest of the policy set in force.", ("digest",), values)


def render(registry: CollectorRegistry) -> bytes:
    """Write all metrics in Prometheus' text format."""
    return generate_latest(registry)
