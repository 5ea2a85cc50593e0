"""Whether the agent of a node serves, by its report and by what the node offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.watch.gpu_node import AgentReport

if TYPE_CHECKING:
    from controller.watch.resources import SeenNode


def why_not_ready(report: AgentReport | None, node: SeenNode) -> str | None:
    """Return why pods that are bound to a node now would fail, by its agent's report; None if that serves."""
    if report is None:
        return "no agent has reported from this node yet"
    if _is_of_another_boot(report, node):
        return "its agent has not reported since the node restarted"
    if not report.is_registered:
        return "its agent is not registered with the kubelet"
    if report.has_healthy_cards and node.offers_nothing and not report.offers_by_dra:
        # The kubelet saw the agent's sockets close: a dead agent cannot update its own report.
        return "its agent is silent: the kubelet offers no slice of GPUs that it called healthy"
    return None


def is_urgent(report: AgentReport | None, node: SeenNode) -> bool:
    """Whether no agent can be serving, so that waiting for it is useless."""
    return report is None or _is_of_another_boot(report, node)


def _is_of_another_boot(report: AgentReport, node: SeenNode) -> bool:
    return bool(node.boot_id and report.boot_id and report.boot_id != node.boot_id)
