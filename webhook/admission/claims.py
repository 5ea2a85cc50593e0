"""Resource claims in a labelled pod: only for devices that are not GPUs, if the policy allows them.

A review has the names of a claim and of its template, but not their device class. Therefore the claim's name
must contain the class, and the second lock checks the claim that is created from the template
(docs/operating/limiters.md).
"""

from __future__ import annotations

from kube.dra import CLAIM_NAME
from modes.claim_name import sizes_of_name
from policies.model.allowances import Allowances
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import LABEL, PodSpec, ResourceClaim

_QUOTED = 40
"""Characters of a claim's name in a denial."""


def refuse_claims(spec: PodSpec, allow: Allowances, *, has_own: bool) -> Denial | None:
    """Refuse claims that may be GPUs. With `has_own`, the pod may have the claim of its share already."""
    if not spec.resource_claims:
        return None
    for claim in spec.resource_claims:
        if has_own and _is_own(claim):
            # A second one of the name is refused.
            has_own = False
            continue
        refused = _refuse(claim, allow.claims)
        if refused is not None:
            return refused
    return None


def refuse_second_use(ref: ContainerRef) -> Denial | None:
    """Refuse a container that uses the claim of its share twice: it would get another one's part too."""
    resources = ref.container.resources
    used = (resources.claims if resources is not None else None) or ()
    if sum([each.name == CLAIM_NAME for each in used]) <= 1:
        return None
    return _denial(
        f'container "{ref.container.name}" lists claim {CLAIM_NAME} twice in resources.claims: remove both'
    )


def _is_own(claim: ResourceClaim) -> bool:
    """Whether an earlier review can have written the claim; its template is compared, and replaced."""
    template = claim.resource_claim_template_name
    is_ours = claim.name == CLAIM_NAME and template is not None and sizes_of_name(template) is not None
    return is_ours and claim.resource_claim_name is None


def _refuse(claim: ResourceClaim, names: frozenset[str]) -> Denial | None:
    if not names:
        return _denial(
            f"resourceClaims may be GPUs and cannot be combined with {LABEL}: remove them, or ask the admin"
            " to list their DeviceClass in allow.deviceClasses"
        )
    said = f'resource claim "{cut_text(claim.name or "", _QUOTED)}"'
    if claim.name not in names:
        return _denial(
            f"{said} may be a GPU: if the policy allows its DeviceClass, rename the claim to"
            f" {' or '.join(sorted(names))}"
        )
    # An existing claim was not checked against this name.
    if not claim.resource_claim_template_name or claim.resource_claim_name:
        return _denial(f"{said} must come from a template: use resourceClaimTemplateName")
    return None


def _denial(message: str) -> Denial:
    return Denial.of(Reason.OTHER_GPU_SYSTEM, message)
