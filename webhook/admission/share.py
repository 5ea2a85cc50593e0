"""The share that a placement gives a pod: amounts, annotations, variables."""

from __future__ import annotations

import msgspec

from ledger.placement_request import Placement
from webhook.admission.annotations import GPU_INDEX, INJECTED, MEMORY_MIB, SLICES, index_text
from webhook.admission.memory_limit import memory_mib
from webhook.admission.placeholders import Filled
from webhook.admission.validate import Validated


class PodShare(msgspec.Struct, frozen=True, eq=False):
    """What a placed pod gets, before it is written as a patch."""

    memory_mib: int | None
    """MiB on each GPU after the policy's reserve; None for whole GPUs, and where the node's agent limits."""
    amounts: dict[str, str]
    """For limits and requests of GPU containers."""
    annotations: dict[str, str]
    """All but the container's name and the reservation."""
    env: Filled


def share_of(validated: Validated, placement: Placement) -> PodShare:
    """Return the share of a placed pod."""
    fraction, indices = validated.fraction, placement.indices
    mib = None
    if validated.policy.writes_limits:
        mib = memory_mib(fraction, placement.gpu_mib, validated.policy.reserve_mib)
    annotations = {INJECTED: validated.policy.marker, SLICES: str(fraction.slices)}
    if indices:
        annotations[GPU_INDEX] = index_text(indices)
    if mib is not None:
        annotations[MEMORY_MIB] = str(mib)
    env = Filled(validated.limiter.env + validated.policy.env, fraction, indices, mib, validated.namespace)
    return PodShare(mib, validated.mode.amounts(fraction, indices), annotations, env)
