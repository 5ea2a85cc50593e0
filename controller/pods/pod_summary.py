"""Summarizes a watched pod for `ledger/why.py`."""

from __future__ import annotations

from controller.pods.pod_findings import drift
from controller.watch.resources import SeenPod
from ledger.free_nodes import FreeNodes
from ledger.why import PodSummary


def summary_of(pod: SeenPod, free: FreeNodes | None) -> PodSummary:
    """Return what the controller knows of a pod.

    Args:
        pod: the pod as last watched.
        free: nodes with free slices for it; None if unknown.
    """
    injected = pod.injected
    if injected is None:
        return PodSummary(fact=pod.fact, free=free)
    return PodSummary(
        fact=pod.fact,
        asked=injected.asked,
        label=injected.label,
        policy=injected.injected.partition("@")[0] if injected.injected is not None else None,
        by_agent=pod.is_limited_by_agent,
        owner=injected.owner,
        drift=drift(pod.fact, injected) if injected.injected is not None else None,
        lacks_slices=injected.lacks_slices,
        free=free,
    )
