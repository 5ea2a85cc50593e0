"""When a node is held for its agent, and when it is let go again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from controller.gpu_node import AgentReport

if TYPE_CHECKING:
    from controller.resources import SeenNode

GRACE_SECONDS = 30.0
"""For which an agent that has served since this boot may say that it is not registered.

A rolling update, a new policy and a new kubelet all register again within some five seconds, and the kubelet
itself offers no slices meanwhile: a taint on each of them would only stop pods that want no GPU.
"""
Action = Literal["hold", "release", "leave"]


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


def decide(*, is_held: bool, why: str | None, urgent: bool, waited_seconds: float) -> Action:
    """Return what to do with a node that the DaemonSet covers.

    A held node is let go only when its agent serves, however short the reason has been that one.

    Args:
        is_held: whether it carries our taint.
        why: the agent does not serve; None if it does.
        urgent: by `is_urgent`.
        waited_seconds: for which it has not served, as far as is known.
    """
    if why is None:
        return "release" if is_held else "leave"
    if is_held:
        return "leave"
    return "hold" if urgent or waited_seconds >= GRACE_SECONDS else "leave"
