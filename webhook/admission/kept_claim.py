"""The claim of an earlier review, in modes of claims: it is kept if pod, label and policy agree with it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube.dra import CLAIM_NAME, DriverName
from kube.names import is_uid
from ledger.placement_request import Placement
from modes.claim import (
    ClaimedShare,
    are_large_enough,
    is_order_of_choice,
    most_sizes,
    needs_sizes,
    template_name,
)
from modes.claim_name import sizes_of_name
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from policies.model.effective import EffectivePolicy
from webhook.admission.annotations import GPU_CONTAINER, GPU_INDEX, INJECTED, MEMORY_MIB, RESERVATION, SLICES
from webhook.admission.containers import Containers
from webhook.admission.memory_limit import mib_of_each, mib_text
from webhook.admission.pod import Pod, PodSpec


def kept_claim(
    pod: Pod, policy: EffectivePolicy, fraction: Fraction, containers: Containers, kinds: GpuKinds
) -> Placement | None:
    """Return the placement of an earlier review; None if the pod's claim and annotations do not agree.

    The sizes of cards are in the template's name. A pod that invents some gets a claim on the same part of
    such cards. A limit that is written into the pod is of one size: the scheduler could choose another.
    """
    said = (pod.metadata.annotations if pod.metadata else None) or {}
    name = _template_of(pod.spec) if pod.spec is not None else None
    sizes = sizes_of_name(name) if name is not None else None
    driver = driver_of(policy)
    if sizes is None or bool(sizes) != needs_sizes(fraction, driver) or not are_large_enough(fraction, sizes):
        return None
    if not is_order_of_choice(sizes) or len(sizes) > most_sizes(fraction, driver):
        return None
    placement = Placement((), sizes[0] if sizes and policy.writes_limits else 0, (), cards=sizes)
    wanted = {GPU_CONTAINER: containers.names, **_annotations(policy, fraction, placement)}
    if (
        said.get(INJECTED, "").partition("@")[0] != policy.name
        or any(said.get(key) != wanted.get(key) for key in (GPU_CONTAINER, SLICES, GPU_INDEX, MEMORY_MIB))
        or template_name(claimed_share(policy, fraction, kinds, sizes)) != name
    ):
        return None
    reservation = said.get(RESERVATION)
    if reservation is None or not is_uid(reservation):
        return placement
    return msgspec.structs.replace(placement, reservation=reservation)


def _annotations(policy: EffectivePolicy, fraction: Fraction, placement: Placement) -> Mapping[str, str]:
    """Return the annotations of a share that is claimed; requested MiB are no number of slices."""
    found = {} if fraction.is_of_memory else {SLICES: str(fraction.slices)}
    each = mib_of_each(fraction, placement.gpu_mib, policy.reserve_mib) if policy.writes_limits else None
    return found if each is None else {**found, MEMORY_MIB: mib_text(each)}


def claimed_share(
    policy: EffectivePolicy, fraction: Fraction, kinds: GpuKinds, cards: tuple[int, ...]
) -> ClaimedShare:
    """Return what the claim of a pod asks for, on cards of these sizes."""
    any_card = policy.containers == "any-gpu" and fraction.containers > 1
    return ClaimedShare(policy.mode.resource, fraction, cards, kinds, any_card, policy.claim_names)


def driver_of(policy: EffectivePolicy) -> DriverName | None:
    """Return the driver of the claims under a policy; None in modes without claims."""
    return policy.mode.resource if policy.mode.is_claimed else None


def _template_of(spec: PodSpec) -> str | None:
    """Return the template of the claim of the pod's share; None if it has no such claim."""
    position = position_of_claim(spec)
    if position is None or spec.resource_claims is None:
        return None
    return spec.resource_claims[position].resource_claim_template_name


def position_of_claim(spec: PodSpec) -> int | None:
    """Return the position of the claim of the pod's share; None if it has none."""
    claims = spec.resource_claims or ()
    return next((at for at, claim in enumerate(claims) if claim.name == CLAIM_NAME), None)
