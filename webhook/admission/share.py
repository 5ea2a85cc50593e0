"""The share that a placement gives a pod: amounts, annotations, variables."""

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
    """What one GPU container gets."""

    memory_mib: int | None
    """MiB on each GPU after the policy's reserve; None for whole GPUs, and where the node's agent limits."""
    amounts: dict[str, str]
    """For limits and requests."""
    env: Filled


class PodShare(msgspec.Struct, frozen=True, eq=False):
    """What a placed pod gets, before it is written as a patch."""

    whole: ContainerShare
    """For the one GPU container, and for init containers: all of it, or the first part where these part."""
    parts: dict[str, ContainerShare]
    """By path, of the containers that share it."""
    annotations: dict[str, str]
    """All but the containers' names and the reservation."""
    memory_mib: int | None
    """MiB of all parts together."""
    smallest_mib: int | None
    """MiB of the smallest part, or of all where there are none; None where nothing is limited."""

    def of(self, ref: ContainerRef) -> ContainerShare:
        """Return what a GPU container gets."""
        return self.parts.get(ref.path, self.whole)


def share_of(validated: Validated, placement: Placement) -> PodShare:
    """Return the share of a placed pod."""
    policy, fraction, containers = validated.policy, validated.fraction, validated.containers
    each = None
    if policy.writes_limits and placement.instance is None:
        each = mib_of_each(fraction, placement.gpu_mib, policy.reserve_mib)
    annotations = {INJECTED: policy.marker, SLICES: str(fraction.slices)}
    if placement.indices and placement.instance is None:
        annotations[GPU_INDEX] = index_text(placement.containers or placement.indices)
    if each is not None:
        annotations[MEMORY_MIB] = mib_text(each)
    by_path = {
        part.ref.path: _share_of(
            validated, *containers.share_of(part.ref, fraction, placement), each[at] if each else None
        )
        for at, part in enumerate(containers.parts)
    }
    mib = sum(each) if each else None
    if placement.containers:
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
    """Return the limiter's variables with the compute that the pod itself asks to be held to."""
    if compute is None:
        return variables
    own = EnvVar(COMPUTE_LIMIT, compute)
    return (*(each for each in variables if each.name != COMPUTE_LIMIT), own)
