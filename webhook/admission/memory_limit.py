"""How much GPU memory a share is."""

from __future__ import annotations

from modes.fraction import Fraction


def memory_mib(fraction: Fraction, gpu_mib: int, reserve_mib: int) -> int | None:
    """MiB of the share on one GPU after the policy's reserve; None for whole GPUs, which have no limit."""
    return None if fraction.is_whole else fraction.share_mib(gpu_mib) - reserve_mib
