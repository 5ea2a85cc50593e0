"""Images with their own limit (limiter clearml-image): the chosen container's image must fit the share."""

from __future__ import annotations

from policies.model.effective import EffectiveLimiter
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add


def choose_image(
    ref: ContainerRef, limiter: EffectiveLimiter, share_mib: int | None, gpu_mib: int
) -> list[Operation] | Denial:
    """Set the largest image that fits the share, or check the pod's own; do nothing for other limiters.

    `share_mib` and `gpu_mib` are MiB of the share and of the whole GPU; `share_mib` is None for whole GPUs,
    which keep their image.
    """
    if share_mib is None:
        return []
    if limiter.images:
        return _largest(ref, limiter, share_mib)
    if limiter.image_pattern is None:
        return []
    image = ref.container.image or ""
    needed = limiter.limit_of(image)
    if needed is None:
        return Denial.of(
            Reason.IMAGE,
            f'image "{image}" has no memory limit of its own, which limiter {limiter.name} needs:'
            " use an image that matches the policy",
        )
    if needed <= share_mib:
        return []
    return Denial.of(
        Reason.IMAGE,
        f"the image limits itself to {needed} MiB, more than the share of {share_mib} MiB"
        f" on a GPU of {gpu_mib} MiB: use a smaller image or a larger fraction",
    )


def _largest(ref: ContainerRef, limiter: EffectiveLimiter, share_mib: int) -> list[Operation] | Denial:
    choice = limiter.largest_image(share_mib)
    if choice is None:
        return Denial.of(
            Reason.IMAGE,
            f"no image of limiter {limiter.name} fits the share of {share_mib} MiB:"
            f" use a larger fraction (the smallest image needs {limiter.images[-1].mib} MiB)",
        )
    return [] if ref.container.image == choice.image else [add(ref.path + "/image", choice.image)]
