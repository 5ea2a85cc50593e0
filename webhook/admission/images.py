"""Images with their own limit (limiter clearml-image): the chosen container's image must fit the share."""

from __future__ import annotations

from policies.model.effective import EffectiveLimiter
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason


def image_denial(
    ref: ContainerRef, limiter: EffectiveLimiter, share_mib: int | None, gpu_mib: int
) -> Denial | None:
    """Return why a pod's image does not fit the share; None if it does, and for other limiters.

    `share_mib` and `gpu_mib` are MiB of the share and of the whole GPU; `share_mib` is None for whole GPUs.
    """
    if share_mib is None or limiter.image_pattern is None:
        return None
    image = ref.container.image or ""
    needed = limiter.limit_of(image)
    if needed is None:
        return Denial.of(
            Reason.IMAGE,
            f'image "{image}" has no memory limit of its own, which limiter {limiter.name} needs:'
            " use an image that matches the policy",
        )
    if needed <= share_mib:
        return None
    return Denial.of(
        Reason.IMAGE,
        f"the image limits itself to {needed} MiB, more than the share of {share_mib} MiB"
        f" on a GPU of {gpu_mib} MiB: use a smaller image or a larger fraction",
    )
