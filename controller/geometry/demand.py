"""What pods that wait for MIG instances bring about: who is looked at, in which order, and what is divided.

Pure but for what it remembers from one step to the next: whose turn it was, and who did not use what was
set aside. It only changes the order of what the cluster shows; a controller that starts does without.
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
    """What is to be done in one step, and told."""

    plan: Plan
    selection: Selection
    deferred: tuple[str, ...]
    """Pods, by uid, for which nothing is done for a while from now on."""


class Demand:
    """Decides what is divided next."""

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
        """Plan for the pods that wait, by uid, with the nodes as they could ever be and as they are."""
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
        """Note who was served or set aside for; return the pods that did not use it for too long."""
        uids = {request.key: request.uid for request in selection.requests}
        self._turns.take({change.request[0] for change in planned.changes}, now)
        self._turns.give({namespace for namespace, _ in planned.set_aside}, now)
        if selection.is_cut or planned.unreached:
            # There are more namespaces than one step can look at: the others come first in the next.
            self._turns.take(selection.seen - planned.unreached, now)
        return tuple(self._deferrals.give([uids[key] for key in planned.set_aside], now))
