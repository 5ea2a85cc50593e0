"""The claim of a pod's share, in modes of claims: `resourceClaims`, and `resources.claims` of GPU containers.

The claim's template is named by what it asks for (modes/claim.py); the controller makes it before the pod is
admitted.
"""

from __future__ import annotations

from kube.dra import CLAIM_NAME, REQUEST_NAME
from ledger.placement_request import Placement
from modes.claim import ClaimedShare, template_name
from webhook.admission.container_refs import ContainerRef
from webhook.admission.json_patch import Operation, add, append
from webhook.admission.kept_claim import claimed_share, position_of_claim
from webhook.admission.validated import Validated


def write_claim(validated: Validated, placement: Placement) -> list[Operation]:
    """Return the operations that give the GPU containers the claim of the pod's share."""
    spec, claim = validated.spec, claim_of(validated, placement)
    if claim is None:
        return []
    name = template_name(claim)
    operations = [
        each for ref in validated.containers.gpu for each in _use(ref, validated.containers.request_of(ref))
    ]
    position = position_of_claim(spec)
    if position is None:
        added = {"name": CLAIM_NAME, "resourceClaimTemplateName": name}
        return [*operations, *append("/spec/resourceClaims", spec.resource_claims, [added])]
    if (spec.resource_claims or [])[position].resource_claim_template_name == name:
        return operations
    return [*operations, add(f"/spec/resourceClaims/{position}/resourceClaimTemplateName", name)]


def claim_of(validated: Validated, placement: Placement) -> ClaimedShare | None:
    """Return what the claim of a placed pod asks for; None in modes without claims."""
    if not validated.mode.is_claimed:
        return None
    return claimed_share(validated, placement.cards)


def _use(ref: ContainerRef, request: str) -> list[Operation]:
    resources, use = ref.container.resources, {"name": CLAIM_NAME}
    if request != REQUEST_NAME:
        use["request"] = request
    if resources is None:
        return [add(f"{ref.path}/resources", {"claims": [use]})]
    used, path = resources.claims or [], f"{ref.path}/resources/claims"
    at = next((at for at, each in enumerate(used) if each.name == CLAIM_NAME), None)
    if at is None:
        return append(path, used, [use])
    is_used = (used[at].request or REQUEST_NAME) == request
    return [] if is_used else [add(f"{path}/{at}/request", request)]
