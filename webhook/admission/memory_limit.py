"""How much GPU memory a share is."""

from __future__ import annotations

from modes.fraction import Fraction


def mib_of_each(fraction: Fraction, gpu_mib: int, reserve_mib: int) -> list[int] | None:
    """MiB on each GPU after the policy's reserve, of the pod or of each container that shares its part.

    None for whole GPUs. Containers get what they asked for, or the pod's MiB by their slices, and together
    never more.
    """
    if fraction.is_whole:
        return None
    mib = fraction.share_mib(gpu_mib)
    if not fraction.split:
        return [mib - reserve_mib]
    each = fraction.split_mib or [mib * slices // fraction.slices for slices in fraction.split]
    return [mib - reserve_mib for mib in each]


def mib_text(each: list[int]) -> str:
    """Return MiB as the annotation has them."""
    return ",".join(map(str, each))
