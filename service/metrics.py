"""The metrics registry of this process; each package declares its own metrics in it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import partial

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
    text = "Log lines lost because standard error did not take them."
    lost = partial(CounterMetricFamily, "fraction_injector_log_lines_lost", text, labels=())
    registry.register(ReadMetric(lost, lambda: ((), lost_lines())))
    return registry


class ReadMetric(Collector):
    """A metric of one series, which is read when it is collected.

    Args:
        metric: makes it without a series.
        read: returns the values of its labels, and its own; None while there is no series.
    """

    def __init__(
        self,
        metric: Callable[[], CounterMetricFamily | GaugeMetricFamily],
        read: Callable[[], tuple[tuple[str, ...], float] | None],
    ) -> None:
        self._metric = metric
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Make the metric."""
        metric = self._metric()
        if (found := self._read()) is not None:
            metric.add_metric(*found)
        yield metric


def policy_since(since: Callable[[], float | None]) -> ReadMetric:
    """Make the metric that says when the current policy set came into force; `since` is in Unix seconds."""
    text = "When the policy set in force came into force in this process, in Unix seconds."
    metric = partial(GaugeMetricFamily, POLICY_SINCE, text, labels=())
    return ReadMetric(metric, lambda: ((), found) if (found := since()) is not None else None)


def policy_info(digest: Callable[[], str | None]) -> ReadMetric:
    """Make the metric that names the policy set in force, by the digest that pods carry too."""
    metric = partial(
        GaugeMetricFamily, POLICY_INFO, "Always 1: digest of the policy set in force.", labels=("digest",)
    )
    return ReadMetric(metric, lambda: ((found,), 1) if (found := digest()) is not None else None)
