"""Checks of what nodes lack to run fractions, and of their GpuLedgers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controller.publish import node_problems
from doctor.agents import gpu_nodes
from doctor.finding import Diagnosis
from doctor.seen import Seen


def lacking(seen: Seen) -> Iterator[Diagnosis]:
    """Every node with GPUs can run fractions."""
    for node in gpu_nodes(seen):
        found = node_problems.of_fact(node.fact)
        if found is not None:
            what, _, advice = node_problems.message(found, node.fact.name).partition(": ")
            yield Diagnosis("failed", what, advice, node.fact.name)


def published(seen: Seen) -> Iterator[Diagnosis]:
    """The controller publishes every node's ledger, and allocates no GPU beyond its capacity."""
    ledgers = seen.ledgers.value
    for node in gpu_nodes(seen):
        conditions = ledgers.get(node.fact.name)
        if conditions is None:
            what = "it has no GpuLedger: no controller counts its GPUs"
            yield Diagnosis("warning", what, "see the controller's log", node.fact.name)
        for each in conditions or ():
            if (each.type, each.status) == ("OverCommitted", "True"):
                advice = "fraction-injector ledger --node names the pods; the excess ends with them"
                yield Diagnosis("warning", each.message, advice, node.fact.name)
