"""MIG instances: the one that a pod requests by name, and the one from an earlier review."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube.dra import CLAIM_NAME
from ledger.placement_request import MAX_RESOURCE, Placement
from modes.mig_profiles import MigCard, card_of_product
from modes.mode import Mode
from modes.units import POOL, profile_of_resource
from webhook.admission.affinity import MAX_MODELS, named_models
from webhook.admission.annotations import SLICES
from webhook.admission.container_parts import refuse_parts
from webhook.admission.containers import Containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import PodSpec
from webhook.admission.validated import Validated

_NOTHING = {"0", 0}
KnownCards = Callable[[], Mapping[str, MigCard]]
"""Returns how cards can be divided, by their models, as far as nodes say it."""


def named_instance(containers: Containers) -> str:
    """Return the resource of the MIG instance that GPU containers request; empty if they request none.

    It becomes part of a placement request, so it is cut to the maximum length of a resource name.
    """
    return next(iter(_named(containers)), "")[:MAX_RESOURCE]


def refuse_instances(containers: Containers, *, has_claim: bool) -> Denial | None:
    """Refuse instances of two profiles, for several containers, or beside the claim of a share."""
    named = _named(containers)
    if named and has_claim:
        rule = f"{named[0]} and the claim {CLAIM_NAME} are two shares of GPUs: remove one of the two"
        return Denial.of(Reason.OTHER_GPU_SYSTEM, rule)
    if named and containers.parts:
        return refuse_parts(f"divides one GPU, but {named[0]} is for one container: remove one of the two")
    if len(named) <= 1:
        return None
    return Denial.of(
        Reason.GPU_AMOUNT, f"{named[0]} and {named[1]} are two MIG instances, but a share is one: keep one"
    )


def _named(containers: Containers) -> list[str]:
    every = [each for ref in containers.gpu for each in ref.gpu_amounts]
    return sorted({name for name, amount, kind in every if kind.is_instance and amount not in _NOTHING})


def kept_instance(validated: Validated, mode: Mode, mig_cards: KnownCards) -> Placement | None:
    """Return the pod's instance from an earlier review; None if it has no valid one.

    The models in the node affinity determine the size of the instance. It must equal the annotation, and be
    enough for the pod's request.
    """
    resource = _only_resource(validated.containers)
    if resource is None:
        return None
    unit, known, slices = profile_of_resource(resource) or POOL, mig_cards(), validated.said.get(SLICES)
    for products in _bound_products(validated.spec):
        offers = [(each, known.get(each) or card_of_product(each), (unit,)) for each in products]
        found = mode.instances(validated.fraction, offers, resource)
        if len(found) == 1 and found[0].products == products and str(found[0].eighths) == slices:
            return Placement(found[0].indices, found[0].mib, (), instance=found[0])
    return None


def _only_resource(containers: Containers) -> str | None:
    """Return the resource that each GPU container has exactly once in limits and requests, or None.

    Amounts of zero, which users may write for other profiles, do not count.
    """
    names = {name for ref in containers.gpu for name, amount, _ in ref.gpu_amounts if amount not in _NOTHING}
    if len(names) != 1:
        return None
    (name,) = names
    for ref in containers.gpu:
        resources = ref.container.resources
        for amounts in (resources.limits, resources.requests) if resources is not None else ({},):
            if str((amounts or {}).get(name)) != "1":
                return None
    return name


def _bound_products(spec: PodSpec) -> list[tuple[str, ...]]:
    """Return the sets of models that every term of the required affinity contains.

    Ours is among them. The user may have written others, with at most as many values in total.
    """
    bound = named_models(spec)
    if not bound or sum(map(len, bound[0])) > 2 * MAX_MODELS:
        return []
    common = set(bound[0]).intersection(*bound[1:])
    return [each for each in dict.fromkeys(bound[0]) if each in common]
