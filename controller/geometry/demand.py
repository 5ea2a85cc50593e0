"""Decides which waiting pods are served next, and which cards are divided for them.

Pure except for what it remembers between steps: the turns of namespaces, and the pods that did not use their
instances. That only changes the order; a new controller starts without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.geometry.feasibility import MAX_WORK, Feasibility, NodeOffer
from controller.geometry.model import MigNode, Plan, Steps
from controller.geometry.planner import plan
from controller.geometry.selection import Selection, select
from controller.geometry.turns import Deferrals, NamespaceTurns
from controller.watch.resources import SeenPod


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do in one step, and what to report."""

    plan: Plan
    selection: Selection
    deferred: tuple[str, ...]
    """Pods, by uid, for which nothing is divided for a while."""


class Demand:
    """Decides for which waiting pods cards are divided next."""

    def __init__(self) -> None:
        self._feasibility = Feasibility()
        self._turns = NamespaceTurns()
        self._deferrals = Deferrals()

    def decide(
        self,
        waiting: Mapping[str, SeenPod],
        offers: Iterable[NodeOffer],
        nodes: Iterable[MigNode],
        now: float,
    ) -> Decision:
        """Plan for the waiting pods, by uid, with the nodes as they are and as they could be divided."""
        self._deferrals.keep(waiting.keys())
        self._turns.forget(now)
        self._feasibility.update(offers)
        selection = select(
            waiting.values(),
            self._feasibility,
            self._turns.last,
            Steps(MAX_WORK),
            lambda uid: self._deferrals.is_deferred(uid, now),
        )
        self._feasibility.keep(selection.shapes)
        planned = plan(nodes, selection.requests, self._turns.last)
        return Decision(planned, selection, self._take_turns(planned, selection, now))

    def _take_turns(self, planned: Plan, selection: Selection, now: float) -> tuple[str, ...]:
        """Record which namespaces were served; return the pods that left their instances unused."""
        uids = {request.key: request.uid for request in selection.requests}
        self._turns.take({change.request[0] for change in planned.changes}, now)
        self._turns.give({namespace for namespace, _ in planned.set_aside}, now)
        if selection.is_cut or planned.unreached:
            # One step cannot look at all namespaces: the others come first in the next step.
            self._turns.take(selection.seen - planned.unreached, now)
        return tuple(self._deferrals.give([uids[key] for key in planned.set_aside], now))
