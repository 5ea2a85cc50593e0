"""Slices or a MIG instance: takes the first preferred mode that has room, and reports why not the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ledger.placement_request import Oversized, Placement, PlacementRequest, Unschedulable

MAX_REASON = 120
"""Characters of the reason why a mode was passed over."""
_Answers = Sequence[tuple[PlacementRequest, list[Placement] | Unschedulable]]


def family_requests(request: PlacementRequest) -> list[PlacementRequest]:
    """Return the same request for each preferred mode, in order.

    If the pod names a resource of MIG instances, only their mode is left. If containers share a GPU, only
    slices are.
    """
    found = [request.with_share(mode=mode).with_demands(prefer=()) for mode in request.demands.prefer]
    if request.demands.resource:
        return [each for each in found if each.share.mode_type.gives_instances]
    if request.share.fraction.containers:
        return [each for each in found if each.share.mode_type.several_containers_problem is None]
    return found


def preferred(answers: _Answers, oversized: Oversized) -> list[Placement] | Unschedulable:
    """Return the placements that a pod can have in any of the modes, the best first, or why there is none.

    Placements with room come first, then the preferred mode. An instance of more than twice the request is
    used only if nothing else could ever hold the pod; with `oversized` "take", if nothing else has room.
    """
    placed = [
        (rank, each)
        for rank, (_, found) in enumerate(answers)
        if not isinstance(found, Unschedulable)
        for each in found
    ]
    if not placed:
        refused = [found for _, found in answers if isinstance(found, Unschedulable)]
        return next((each for each in refused if each.is_for_now), refused[0])
    fitting = [each for each in placed if not each[1].is_more_than_twice]
    if oversized == "wait" and fitting:
        placed = fitting
    placed.sort(key=lambda each: (each[1].node is None, each[1].is_more_than_twice, each[0]))
    return [_with_reason(placement, answers[:rank]) for rank, placement in placed]


def _with_reason(placement: Placement, earlier: _Answers) -> Placement:
    """Return a placement with the reasons why more preferred modes were passed over."""
    reasons = [f"{request.share.mode} {_reason(found)}" for request, found in earlier]
    return msgspec.structs.replace(placement, passed_over="; ".join(reasons)[:MAX_REASON])


def _reason(found: list[Placement] | Unschedulable) -> str:
    if isinstance(found, Unschedulable):
        return f"cannot: {found.why}"
    instance = found[0].instance
    if instance is not None and instance.is_more_than_twice:
        return f"would give {instance.profile.name}, more than twice the request"
    return "has no room now"
