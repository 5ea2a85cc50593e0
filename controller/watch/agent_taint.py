"""The taint of a node whose agent does not serve: how to find, add and remove it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kube.names import AGENT_TAINT
from kube.scheduling import Taint

EFFECT = "NoSchedule"
TAINTS = "/spec/taints"


class NodeTaints(msgspec.Struct, frozen=True, gc=False):
    """The part of a node's taints that a patch needs."""

    count: int = 0
    ours: int | None = None
    """Position of our taint; None without it."""


def taints_of(taints: Sequence[Taint]) -> NodeTaints:
    """Return the position of our taint."""
    places = [place for place, each in enumerate(taints) if (each.key, each.effect) == (AGENT_TAINT, EFFECT)]
    return NodeTaints(len(taints), places[0] if places else None)


def hold_patch(known: NodeTaints) -> list[dict[str, Any]]:
    """Return a JSON patch that adds our taint; the API server rejects it if the list of taints has changed.

    A second taint with the same key and effect is invalid, so it is never added twice.
    """
    taint = {"key": AGENT_TAINT, "effect": EFFECT}
    if known.count:
        return [{"op": "add", "path": f"{TAINTS}/-", "value": taint}]
    # None tests that the list is missing: a list that was created meanwhile is never overwritten.
    return [{"op": "test", "path": TAINTS, "value": None}, {"op": "add", "path": TAINTS, "value": [taint]}]


def release_patch(place: int) -> list[dict[str, Any]]:
    """Return a JSON patch that removes our taint at this position; rejected if another taint is there."""
    path = f"{TAINTS}/{place}"
    return [
        {"op": "test", "path": f"{path}/key", "value": AGENT_TAINT},
        {"op": "test", "path": f"{path}/effect", "value": EFFECT},
        {"op": "remove", "path": path},
    ]
