"""What a placement comes to for every pod that asks the same of the same policy: nothing is one pod's own."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.mode import Mode
from policies.model.effective import EnvVar
from webhook.admission.annotations import GPU_INDEX, INJECTED, MEMORY_MIB, SLICES, index_text
from webhook.admission.memory_limit import memory_mib
from webhook.admission.placeholders import Filled, uses_namespace
from webhook.admission.validate import Plan


class Share(msgspec.Struct, frozen=True, eq=False):
    """The parts of a patch that pods have in common; shared between them, so never changed."""

    memory_mib: int | None
    """MiB on each GPU after the policy's reserve; None for whole GPUs, which have no limit."""
    amounts: dict[str, str]
    """For limits and requests of GPU containers."""
    annotations: dict[str, str]
    """All but the container's name and the reservation."""
    env: Filled


def share_of(plan: Plan, placement: Placement) -> Share:
    """Work out the share of a placed pod, or remember it."""
    variables = plan.limiter.env + plan.policy.env
    return _share(
        plan.policy.marker,
        plan.policy.reserve_mib,
        variables,
        plan.mode,
        plan.fraction,
        placement.indices,
        placement.gpu_mib,
        plan.namespace if uses_namespace(variables) else "",
    )


@lru_cache(maxsize=4096)
def _share(  # noqa: PLR0913, PLR0917 each is a part of what is remembered
    marker: str,
    reserve_mib: int,
    variables: tuple[EnvVar, ...],
    mode: Mode,
    fraction: Fraction,
    indices: tuple[int, ...],
    gpu_mib: int,
    namespace: str,
) -> Share:
    mib = memory_mib(fraction, gpu_mib, reserve_mib)
    annotations = {INJECTED: marker, SLICES: str(fraction.slices)}
    if indices:
        annotations[GPU_INDEX] = index_text(indices)
    if mib is not None:
        annotations[MEMORY_MIB] = str(mib)
    env = Filled(variables, fraction, indices, mib, namespace)
    return Share(mib, mode.amounts(fraction, indices), annotations, env)
