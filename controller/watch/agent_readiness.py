"""Whether the agent of a node serves: by what it says of itself, and by what the node offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.watch.gpu_node import AgentReport

if TYPE_CHECKING:
    from controller.watch.resources import SeenNode


def why_not_ready(report: AgentReport | None, node: SeenNode) -> str | None:
    """Return why pods that are bound to a node now would fail; None where its agent serves.

    Args:
        report: what the agent says in the GpuNode; None where there is none.
        node: as its status says it.
    """
    if report is None:
        return "no agent has reported from it yet"
    if _is_of_another_boot(report, node):
        return "its agent has not reported since it was started again"
    if not report.is_registered:
        return "its agent is not registered with the kubelet"
    if report.has_healthy_cards and node.offers_nothing:
        # The kubelet saw the agent's sockets end: what is dead cannot take its own word back.
        return "its agent is silent: the kubelet offers no slice of GPUs that it called healthy"
    return None


def is_urgent(report: AgentReport | None, node: SeenNode) -> bool:
    """Whether no agent can be serving, so that there is nothing to wait for."""
    return report is None or _is_of_another_boot(report, node)


def _is_of_another_boot(report: AgentReport, node: SeenNode) -> bool:
    return bool(node.boot_id and report.boot_id and report.boot_id != node.boot_id)
