"""The share of a placed pod: amounts, annotations, variables."""

from __future__ import annotations

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from policies.model.effective import COMPUTE_LIMIT, EnvVar
from webhook.admission.annotations import GPU_INDEX, INJECTED, MEMORY_MIB, SLICES, index_text
from webhook.admission.container_refs import ContainerRef
from webhook.admission.memory_limit import mib_of_each, mib_text
from webhook.admission.placeholders import Filled
from webhook.admission.validate import Validated


class ContainerShare(msgspec.Struct, frozen=True, eq=False):
    """The share of one GPU container."""

    memory_mib: int | None
    """MiB on each GPU after the policy's reserve; None for whole GPUs, and with limits by the node's
    agent."""
    amounts: dict[str, str]
    """Amounts for limits and requests."""
    env: Filled


class PodShare(msgspec.Struct, frozen=True, eq=False):
    """The share of a placed pod, before it is written as a patch."""

    whole: ContainerShare
    """For the only GPU container, and for init containers: all of it, or the first part if parts are on
    different GPUs, or requests of one claim."""
    parts: dict[str, ContainerShare]
    """Shares of the containers with parts, by path."""
    annotations: dict[str, str]
    """All annotations except the containers' names and the reservation."""
    memory_mib: int | None
    """MiB of all parts."""
    smallest_mib: int | None
    """MiB of the smallest part, or of the whole share without parts; None if nothing is limited."""

    def of(self, ref: ContainerRef) -> ContainerShare:
        """Return a GPU container's share."""
        return self.parts.get(ref.path, self.whole)


def share_of(validated: Validated, placement: Placement) -> PodShare:
    """Return the share of a placed pod."""
    policy, fraction, containers = validated.policy, validated.fraction, validated.containers
    each = None
    if policy.writes_limits and placement.instance is None:
        each = mib_of_each(fraction, placement.gpu_mib, policy.reserve_mib)
    annotations = {INJECTED: policy.marker}
    if not (validated.mode.is_claimed and fraction.is_of_memory):
        annotations[SLICES] = str(fraction.slices)
    if placement.gpus:
        annotations[GPU_INDEX] = index_text(placement.gpus)
    if each is not None:
        annotations[MEMORY_MIB] = mib_text(each)
    by_path = {
        part.ref.path: _share_of(
            validated, *containers.share_of(part.ref, fraction, placement), each[at] if each else None
        )
        for at, part in enumerate(containers.parts)
    }
    mib = sum(each) if each else None
    if placement.containers or (by_path and validated.mode.is_claimed):
        whole = by_path[containers.chosen.path]
    else:
        whole = _share_of(validated, fraction, placement.indices, mib)
    return PodShare(whole, by_path, annotations, mib, min(each) if each else None)


def _share_of(
    validated: Validated, fraction: Fraction, indices: tuple[int, ...], mib: int | None
) -> ContainerShare:
    variables = _limited(validated.limiter.env, validated.compute) + validated.policy.env
    env = Filled(variables, fraction, indices, mib, validated.namespace)
    return ContainerShare(mib, validated.mode.amounts(fraction, indices), env)


def _limited(variables: tuple[EnvVar, ...], compute: str | None) -> tuple[EnvVar, ...]:
    """Return the limiter's variables, with the pod's own limit of compute."""
    if compute is None:
        return variables
    own = EnvVar(COMPUTE_LIMIT, compute)
    return (*(each for each in variables if each.name != COMPUTE_LIMIT), own)
