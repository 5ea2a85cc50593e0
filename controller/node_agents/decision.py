"""When a node is tainted because of its agent, and when the taint is removed."""

from __future__ import annotations

from typing import Literal

LEFT = "its agent left, and pods still use slices of its GPUs"
GRACE_SECONDS = 30.0
"""How long an agent that has served since this boot may report that it is not registered.

After a rolling update, a new policy or a restart of the kubelet, it registers again within some five seconds,
and the kubelet offers no slices meanwhile. A taint would then only stop pods that request no GPU.
"""
Action = Literal["hold", "release", "leave"]


def decide(*, is_held: bool, why: str | None, urgent: bool, waited_seconds: float) -> Action:
    """Return what to do with a node that the DaemonSet covers.

    A node is released only when its agent serves, however short the time since it stopped.

    Args:
        is_held: whether the node has our taint.
        why: why the agent does not serve; None if it does.
        urgent: the result of `agent_readiness.is_urgent`.
        waited_seconds: how long it is known not to serve.
    """
    if why is None:
        return "release" if is_held else "leave"
    if is_held:
        return "leave"
    return "hold" if urgent or waited_seconds >= GRACE_SECONDS else "leave"


def decide_left(*, is_held: bool, may_be_offered: bool, waited_seconds: float) -> Action:
    """Return what to do with a node whose agent left while pods still use slices of its GPUs.

    Another device plugin, such as NVIDIA's, does not know of them: it would give their GPUs to other pods.

    Args:
        is_held: whether the node has our taint.
        may_be_offered: whether the node offers slices although its agent ended. Either its status is
            outdated, or another device plugin offers the same resources, so that the scheduler counts on.
        waited_seconds: how long that is known.
    """
    if may_be_offered:
        return "release" if is_held and waited_seconds >= GRACE_SECONDS else "leave"
    return "leave" if is_held else "hold"
