"""Resource claims in a labelled pod: of devices that are no GPU, where the policy says so.

A review shows the name of a claim and of its template, not what they are of. So the name says the class, and
the second lock holds the claim that is made of the template to it (docs/operating/limiters.md).
"""

from __future__ import annotations

from policies.model.allowances import Allowances
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import LABEL, PodSpec, ResourceClaim

_QUOTED = 40
"""Characters of a claim's name in a denial."""


def refuse_claims(spec: PodSpec, allow: Allowances) -> Denial | None:
    """Refuse claims that may be of GPUs."""
    if not spec.resource_claims:
        return None
    names = allow.claims
    if not names:
        return _denial(
            f"resourceClaims may be GPUs and cannot stand beside {LABEL}: remove them, or let the admin name"
            " the DeviceClass of what is no GPU in allow.deviceClasses"
        )
    return next((denial for claim in spec.resource_claims if (denial := _refuse(claim, names))), None)


def _refuse(claim: ResourceClaim, names: frozenset[str]) -> Denial | None:
    said = f'resource claim "{cut_text(claim.name or "", _QUOTED)}"'
    if claim.name not in names:
        return _denial(
            f"{said} may be a GPU: if it is of a DeviceClass that the policy allows, call it"
            f" {' or '.join(sorted(names))}"
        )
    # A claim that is there already was made without this name.
    if not claim.resource_claim_template_name or claim.resource_claim_name:
        return _denial(f"{said} must be made from a template: use resourceClaimTemplateName")
    return None


def _denial(message: str) -> Denial:
    return Denial.of(Reason.OTHER_GPU_SYSTEM, message)
