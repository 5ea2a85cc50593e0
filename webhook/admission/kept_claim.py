"""The claim of an earlier review, in modes of claims: it is kept if pod, label and policy agree with it."""

from __future__ import annotations

from typing import cast

from kube.dra import CLAIM_NAME, DriverName
from ledger.placement_request import Placement
from modes.claim import ClaimedShare, is_order_of_choice, needs_sizes, template_name
from modes.claim_name import sizes_of_name
from policies.model.effective import EffectivePolicy
from webhook.admission.annotations import GPU_INDEX, MEMORY_MIB, SLICES, numbers_text
from webhook.admission.pod import PodSpec
from webhook.admission.validated import Validated


def kept_claim(validated: Validated) -> Placement | None:
    """Return the placement of an earlier review; None if the pod's claim and annotations do not agree.

    The sizes of cards are in the template's name. A pod that invents some gets a claim on the same part of
    such cards. A limit that is written into the pod is of one size: the scheduler could choose another.
    """
    policy, fraction, said = validated.policy, validated.fraction, validated.said
    at, claims = position_of_claim(validated.spec), validated.spec.resource_claims or []
    name = claims[at].resource_claim_template_name if at is not None else None
    sizes = sizes_of_name(name) if name is not None else None
    if sizes is None or bool(sizes) != needs_sizes(fraction, driver_of(policy)):
        return None
    if not is_order_of_choice(sizes):
        return None
    gpu_mib = sizes[0] if sizes and policy.writes_limits else 0
    each = fraction.limits_mib(gpu_mib, policy.reserve_mib) if policy.writes_limits else None
    # Requested MiB are no number of slices.
    wanted = (
        None if fraction.is_of_memory else str(fraction.slices),
        None,
        None if each is None else numbers_text(each),
    )
    if wanted != tuple(map(said.get, (SLICES, GPU_INDEX, MEMORY_MIB))):
        return None
    try:
        is_ours = template_name(claimed_share(validated, sizes)) == name
    except ValueError:  # no claim asks for such sizes
        return None
    return Placement((), gpu_mib, (), cards=sizes) if is_ours else None


def claimed_share(validated: Validated, cards: tuple[int, ...]) -> ClaimedShare:
    """Return what the claim of a pod asks for, on cards of these sizes."""
    policy, fraction, kinds = validated.policy, validated.fraction, validated.kinds
    any_card = policy.containers == "any-gpu" and fraction.containers > 1
    return ClaimedShare(policy.mode.resource, fraction, cards, kinds, any_card)


def driver_of(policy: EffectivePolicy) -> DriverName | None:
    """Return the driver of the claims under a policy; None in modes without claims."""
    return cast(DriverName, policy.mode.resource) if policy.mode.is_claimed else None


def has_claim(validated: Validated) -> bool:
    """Whether a pod has the claim of a share already, so that it can get nothing else."""
    return validated.policy.mode.is_claimed and position_of_claim(validated.spec) is not None


def position_of_claim(spec: PodSpec) -> int | None:
    """Return the position of the claim of the pod's share; None if it has none."""
    claims = spec.resource_claims or ()
    return next((at for at, claim in enumerate(claims) if claim.name == CLAIM_NAME), None)
