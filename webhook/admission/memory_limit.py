"""The GPU memory of a share."""

from __future__ import annotations

from modes.fraction import Fraction


def mib_of_each(fraction: Fraction, gpu_mib: int, reserve_mib: int) -> list[int] | None:
    """Return MiB on each GPU after the policy's reserve, for the pod or for each part of its share.

    None for whole GPUs. Containers get the MiB that they requested, or MiB in proportion to their slices; the
    sum never exceeds the pod's MiB.
    """
    if fraction.is_whole:
        return None
    return [mib - reserve_mib for mib in fraction.mib_of_parts(gpu_mib)]


def mib_text(each: list[int]) -> str:
    """Return MiB in the format of the annotation."""
    return ",".join(map(str, each))
