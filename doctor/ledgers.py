"""Checks of what nodes lack to run fractions, and of their GpuLedgers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controller.publish import node_problems
from doctor.agents import gpu_nodes
from doctor.finding import Diagnosis, Level
from doctor.seen import Seen, StoredPolicies, known
from kube.names import GPU_MEMORY_LABEL


def lacking(seen: Seen) -> Iterator[Diagnosis]:
    """Every node with GPUs can run fractions."""
    reports = known(seen.reports, {})
    for node in gpu_nodes(seen):
        found, says = node_problems.of_fact(node.fact), reports.get(node.fact.name)
        if found == "NoMemoryLabel" and says is not None and says.shared:
            mib = min([card.memory_mib for card in says.shared])
            yield _unlabelled(seen, node.fact.name, mib)
        elif found is not None:
            what, _, advice = node_problems.message(found, node.fact.name).partition(": ")
            yield Diagnosis("failed", what, advice, node.fact.name)


def _unlabelled(seen: Seen, node: str, mib: int) -> Diagnosis:
    """Return what a node without the label of its memory lacks, where its agent knows the memory."""
    what = node_problems.message("NoMemoryLabel", node).partition(": ")[0]
    policies = known(seen.policies, StoredPolicies(None))
    # Shares that agents limit need no label; only pods that request MiB do.
    level: Level = "failed" if policies.writes_limits else "warning"
    return Diagnosis(level, what, f"kubectl label node {node} {GPU_MEMORY_LABEL}={mib}", node)


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
