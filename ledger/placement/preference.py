"""Slices or a MIG instance: takes the first preferred mode that has room, and reports why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    placed = [(rank, each) for rank, (_, found) in enumerate(answers) for each in _placements(found)]
    if not placed:
        refused = [found for _, found in answers if isinstance(found, Unschedulable)]
        return next((each for each in refused if each.is_for_now), refused[0])
    fitting = [each for each in placed if not _is_more_than_twice(each[1])]
    if oversized == "wait" and fitting:
        placed = fitting
    placed.sort(key=lambda each: (each[1].node is None, _is_more_than_twice(each[1]), each[0]))
    return [_with_reason(placement, answers[:rank]) for rank, placement in placed]


def _placements(found: list[Placement] | Unschedulable) -> list[Placement]:
    return [] if isinstance(found, Unschedulable) else found


def _is_more_than_twice(placement: Placement) -> bool:
    return placement.instance is not None and placement.instance.is_more_than_twice


def _with_reason(placement: Placement, earlier: _Answers) -> Placement:
    """Return a placement with the reasons why more preferred modes were passed over."""
    reasons = [f"{request.share.mode} {_reason(found)}" for request, found in earlier]
    return (
        msgspec.structs.replace(placement, passed_over="; ".join(reasons)[:MAX_REASON])
        if reasons
        else placement
    )


def _reason(found: list[Placement] | Unschedulable) -> str:
    if isinstance(found, Unschedulable):
        return f"cannot: {found.why}"
    first = found[0]
    if first.instance is not None and first.instance.is_more_than_twice:
        return f"would give {first.instance.profile.name}, more than twice the request"
    return "has no room now"


class InstanceOption(NamedTuple):
    """A placement on an instance, and how much waits for such instances."""

    placement: Placement
    load: int

    @property
    def is_more_than_twice(self) -> bool:
        """Whether more than half of the instance would be idle."""
        instance = self.placement.instance
        return instance is not None and instance.is_more_than_twice

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Sort key: the best sorts first."""
        instance, waits = self.placement.instance, self.placement.node is None
        eighths, mib = (instance.eighths, instance.mib) if instance is not None else (0, 0)
        return waits, eighths, self.load if waits else 0, mib


def within_twice(placed: Sequence[InstanceOption], oversized: Oversized) -> list[Placement]:
    """Return placements on instances, the best first: those with room, then the smallest.

    Instances of more than twice the request are included only if there is no other, or if `oversized` is
    "take".
    """
    fitting = [each for each in placed if not each.is_more_than_twice]
    taken = placed if oversized == "take" or not fitting else fitting
    return [each.placement for each in sorted(taken, key=lambda each: each.rank)]
