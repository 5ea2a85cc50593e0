"""The metrics registry of this process; each package declares its own metrics in it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Make a registry with the process's own figures (CPU, memory, garbage collection)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def render(registry: CollectorRegistry) -> bytes:
    """Write all metrics in Prometheus' text format."""
    return generate_latest(registry)
