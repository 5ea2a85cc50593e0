"""The controller's metrics of node agents."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Gauge


class NodeAgentMetrics:
    """Metrics of the leader; every series is zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.held = gauge(
            "fraction_injector_nodes_held", "Nodes with the taint agent-not-ready, as the leader sees them."
        )
        self.differences = gauge(
            "fraction_injector_audit_differences",
            "GPUs for which the kubelet and the ledger differed in three checks, by the leader.",
        )
