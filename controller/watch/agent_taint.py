"""The taint of a node whose agent does not serve: how it is read off a node, put on and taken off. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kube.names import AGENT_TAINT
from kube.scheduling import Taint

EFFECT = "NoSchedule"
TAINTS = "/spec/taints"


class NodeTaints(msgspec.Struct, frozen=True, gc=False):
    """As much of a node's taints as a patch needs."""

    count: int = 0
    ours: int | None = None
    """Place of our taint among them; None without it."""


def taints_of(taints: Sequence[Taint]) -> NodeTaints:
    """Return where our taint is."""
    places = [place for place, each in enumerate(taints) if (each.key, each.effect) == (AGENT_TAINT, EFFECT)]
    return NodeTaints(len(taints), places[0] if places else None)


def hold_patch(known: NodeTaints) -> list[dict[str, Any]]:
    """Return a JSON patch that adds our taint; the API server refuses it where the list was not as known.

    A second taint of the same key and effect is invalid, so that it is never there twice.
    """
    taint = {"key": AGENT_TAINT, "effect": EFFECT}
    if known.count:
        return [{"op": "add", "path": f"{TAINTS}/-", "value": taint}]
    # None stands for a list that is not there: one that somebody has begun since is never overwritten.
    return [
        {"op": "test", "path": TAINTS, "value": None},
        {"op": "add", "path": TAINTS, "value": [taint]},
    ]


def release_patch(place: int) -> list[dict[str, Any]]:
    """Return a JSON patch that removes our taint at that place; refused where another one stands there."""
    path = f"{TAINTS}/{place}"
    return [
        {"op": "test", "path": f"{path}/key", "value": AGENT_TAINT},
        {"op": "test", "path": f"{path}/effect", "value": EFFECT},
        {"op": "remove", "path": path},
    ]
