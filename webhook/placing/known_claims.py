"""The claims that pods got lately: their templates are there while the controller is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.placement_request import Placement, PlacementRequest

KNOWN_SECONDS = 1800.0
"""After a pod last got such a claim: the controller keeps a template for an hour."""
MAX_OF_NAMESPACE, MAX_NAMESPACES = 32, 1024
"""Kinds of claims of one namespace, whose authors choose their amounts, and namespaces."""


class KnownClaims:
    """What the controller last answered for each kind of claim of a namespace.

    Args:
        clock: seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, dict[Any, tuple[float, Placement]]] = {}
        """By namespace, what was noted last at the end."""

    def note(self, request: PlacementRequest, placement: Placement) -> None:
        """Remember that the template of a pod's claim is there; pods without a claim do not count."""
        if not request.share.is_claim(placement):
            return
        namespace, kind = request.accounting.namespace, _kind(request)
        of_namespace = self._known.pop(namespace, {})
        of_namespace.pop(kind, None)
        of_namespace[kind] = self._clock(), Placement((), placement.gpu_mib, (), cards=placement.cards)
        self._known[namespace] = of_namespace
        for known, most in ((of_namespace, MAX_OF_NAMESPACE), (self._known, MAX_NAMESPACES)):
            if len(known) > most:
                del known[next(iter(known))]

    def find(self, request: PlacementRequest) -> Placement | None:
        """Return a placement with a template that is there; None if it is not known to be, or no claim."""
        existing = request.demands.existing
        if request.demands.resource or (existing is not None and existing.instance is not None):
            return None
        of_namespace = self._known.get(request.accounting.namespace, {})
        noted, placement = of_namespace.get(_kind(request), (0.0, None))
        if placement is None or noted <= self._clock() - KNOWN_SECONDS:
            return None
        return existing if existing is not None and existing.cards == placement.cards else placement


def _kind(request: PlacementRequest) -> Any:
    """Return what decides the name of a claim's template, apart from the cards that are offered."""
    share = request.share
    return share.driver, share.fraction, share.any_gpu, request.demands.kinds
