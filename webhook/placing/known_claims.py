"""The claims that pods got lately: their templates are there while the controller is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.placement_request import Placement, PlacementRequest

KNOWN_SECONDS = 1800.0
"""After a pod last got such a claim: the controller keeps a template for an hour."""
MAX_KNOWN = 4096
"""Kinds of claims, in all namespaces."""


class KnownClaims:
    """What the controller last answered for each kind of claim of a namespace.

    Args:
        clock: seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[Any, tuple[float, Placement]] = {}

    def note(self, request: PlacementRequest, placement: Placement) -> None:
        """Remember that the template of a pod's claim is there, of MAX_KNOWN the last ones."""
        kind = _kind(request)
        self._known.pop(kind, None)
        self._known[kind] = self._clock(), Placement((), placement.gpu_mib, (), cards=placement.cards)
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def find(self, request: PlacementRequest) -> Placement | None:
        """Return a placement with a template that is there; None if it is not known to be."""
        noted, placement = self._known.get(_kind(request), (0.0, None))
        if placement is None or noted <= self._clock() - KNOWN_SECONDS:
            return None
        existing = request.demands.existing
        return existing if existing is not None and existing.cards == placement.cards else placement


def _kind(request: PlacementRequest) -> Any:
    """Return what decides the name of a claim's template, apart from the cards that are offered."""
    share = request.share
    names = share.driver, share.claim_names
    return request.accounting.namespace, names, share.fraction, share.any_gpu, request.demands.kinds
