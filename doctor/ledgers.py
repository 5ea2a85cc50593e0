"""Checks of what nodes lack to run fractions, by the nodes themselves and by their GpuLedgers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.publish import node_problems
from controller.publish.gpu_ledger import Condition
from controller.watch.resources import SeenNode
from doctor.agents import gpu_nodes
from doctor.finding import Diagnosis
from doctor.seen import Seen


def lacking(seen: Seen) -> Iterator[Diagnosis]:
    """Every node with GPUs can run fractions."""
    ledgers = seen.ledgers.value
    for node in gpu_nodes(seen):
        level, message = _lacking(node, ledgers.get(node.fact.name, ()))
        if message is not None:
            what, _, advice = message.partition(": ")
            yield Diagnosis("failed" if level == "False" else "warning", what, advice, node.fact.name)


def _lacking(node: SeenNode, conditions: Sequence[Condition]) -> tuple[str, str | None]:
    """Return the condition's status and message; the node is newer than its published conditions."""
    found = node_problems.of_fact(node.fact)
    if found is not None:
        return "False", node_problems.message(found, node.fact.name)
    for each in conditions:
        # Other conditions may be outdated, because the node itself shows them.
        if each.type == "TakesFractions" and each.reason == "OfferedTwice":
            return each.status, each.message
    return "True", None


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
