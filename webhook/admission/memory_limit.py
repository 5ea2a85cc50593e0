"""How much GPU memory a share is."""

from __future__ import annotations

from collections.abc import Sequence

from modes.fraction import Fraction
from webhook.admission.container_parts import ContainerPart


def mib_of_each(
    fraction: Fraction, parts: Sequence[ContainerPart], gpu_mib: int, reserve_mib: int
) -> list[int] | None:
    """MiB on each GPU after the policy's reserve, of the pod or of each part of it; None for whole GPUs.

    Parts get the pod's MiB by their slices, and together never more.
    """
    if fraction.is_whole:
        return None
    mib = fraction.share_mib(gpu_mib)
    if not parts:
        return [mib - reserve_mib]
    return [mib * part.fraction.slices // fraction.slices - reserve_mib for part in parts]


def mib_text(each: list[int]) -> str:
    """Return MiB as the annotation has them."""
    return ",".join(map(str, each))
