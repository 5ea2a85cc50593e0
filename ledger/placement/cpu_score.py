"""How good a node's CPU is for a pod, beside its GPUs (modes/packing.py): the larger the better."""

from __future__ import annotations

from ledger.placement.request_history import ShadowPrices
from modes.packing import UNIT


def cpu_score(free: int, cpu_free: int, slices: int, cpu_milli: int, prices: ShadowPrices) -> int:
    """The part of the score that CPU decides: stranded slices that the pod would take up, or cause.

    Stranded are those of a node's free slices that lack the CPU they would need.
    """
    before = free * UNIT - cpu_free * prices.cpu
    after = before - slices * UNIT + cpu_milli * prices.cpu
    return max(0, before) - max(0, after)
