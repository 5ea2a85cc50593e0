"""The metrics registry of this process; each package declares its own metrics in it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.log import lost_lines
from service.version import VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Bucket bounds of histograms in seconds, from a quick decision to one that waits."""
POLICY_INFO = "fraction_injector_policy_info"
POLICY_SINCE = "fraction_injector_policy_in_force_since_timestamp_seconds"


def new_registry() -> CollectorRegistry:
    """Make a registry with the process's own metrics (CPU, memory, garbage collection)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    labels = {"version": VERSION, "python": platform.python_version()}
    what = Gauge("fraction_injector_build_info", "Always 1: what runs.", tuple(labels), registry=registry)
    what.labels(**labels).set(1)
    registry.register(_LostLines())
    return registry


class _LostLines(Collector):
    def collect(self) -> Iterator[Metric]:
        """Count the lines up to now."""
        text = "Log lines lost because standard error did not take them."
        yield CounterMetricFamily("fraction_injector_log_lines_lost", text, lost_lines())


class PolicyMetrics(Collector):
    """The policy set in force, by the digest that pods carry too.

    Args:
        digest: returns it; None without a set.
        since: returns when it came into force in this process, in Unix seconds; None without a set.
    """

    def __init__(self, digest: Callable[[], str | None], since: Callable[[], float | None]) -> None:
        self._digest = digest
        self._since = since

    def collect(self) -> Iterator[Metric]:
        """Make both metrics; they have no series without a set."""
        info = GaugeMetricFamily(
            POLICY_INFO, "Always 1: digest of the policy set in force.", labels=["digest"]
        )
        if (digest := self._digest()) is not None:
            info.add_metric([digest], 1)
        text = "When the policy set in force came into force in this process, in Unix seconds."
        since = GaugeMetricFamily(POLICY_SINCE, text, labels=[])
        if (seconds := self._since()) is not None:
            since.add_metric([], seconds)
        yield from (info, since)
