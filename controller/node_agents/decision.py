"""When a node is held for its agent, and when it is let go again."""

from __future__ import annotations

from typing import Literal

GRACE_SECONDS = 30.0
"""For which an agent that has served since this boot may say that it is not registered.

A rolling update, a new policy and a new kubelet all register again within some five seconds, and the kubelet
itself offers no slices meanwhile: a taint on each of them would only stop pods that want no GPU.
"""
Action = Literal["hold", "release", "leave"]


def decide(*, is_held: bool, why: str | None, urgent: bool, waited_seconds: float) -> Action:
    """Return what to do with a node that the DaemonSet covers.

    A held node is let go only when its agent serves, however short the reason has been that one.

    Args:
        is_held: whether it carries our taint.
        why: the agent does not serve; None if it does.
        urgent: by `agent_readiness.is_urgent`.
        waited_seconds: for which it has not served, as far as is known.
    """
    if why is None:
        return "release" if is_held else "leave"
    if is_held:
        return "leave"
    return "hold" if urgent or waited_seconds >= GRACE_SECONDS else "leave"
