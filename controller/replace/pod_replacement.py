"""Deletes pods that wait for their index while their share fits elsewhere, if their policy says so.

A pod's index is part of its resources, which cannot be changed. Its controller creates another pod, and the
webhook gives that pod an index with room.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leader_loop import while_leading
from controller.pods.pending_pod import StoredPod, dry_run, known_constraints, read_pod
from controller.pods.pod_findings import MAX_MESSAGE
from controller.replace.pod_deletion import PodDeletion
from controller.replace.replacement_pace import ReplacementPlan, WaitingPod, waits_replaceably
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import Owner, SeenPod
from kube.scheduling import Constraints
from ledger.placement_request import Placement, PlacementRequest
from ledger.why import needs
from modes.facts import PodFact
from modes.resource_names import ResourceNames
from policies.model.schema import Policy
from service.log import get_logger

LOOK_SECONDS = 2.0
MAX_LOOKED_AT = 64
"""Pods for which room is searched in one step."""
MAX_READ = 4
"""Pods that are read again in one step, because the ledger may have room for them."""
REFUSED_SECONDS = 60.0
"""Pause without a replacement after the API server rejected a request or did not answer."""
PolicyOf = Callable[[str], Policy | None]
"""Returns the policy of a name; None if it no longer exists."""


@dataclass(frozen=True, slots=True)
class _Replaceable:
    """A watched pod that may be replaced."""

    fact: PodFact
    uid: str
    owner: Owner
    after: float
    slices_per_gpu: int

    @property
    def waiting(self) -> WaitingPod:
        return WaitingPod(self.fact.key, self.uid, self.owner.uid, self.after)

    def ask(self, constraints: Constraints) -> PlacementRequest | None:
        return dry_run(self.fact, self.slices_per_gpu, constraints)


class PodReplacement:
    """The leader's loop that replaces waiting pods, one at a time."""

    def __init__(  # noqa: PLR0913 - the parts of a controller that it joins
        self,
        api: ApiServer,
        deletion: PodDeletion,
        state: LedgerStore,
        names: ResourceNames,
        policy_of: PolicyOf,
        *,
        reason_not_to_lead: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`reason_not_to_lead` returns why the ledger may be outdated; nothing is deleted then."""
        self._api = api
        self._deletion = deletion
        self._state = state
        self._names = names
        self._policy_of = policy_of
        self._reason_not_to_lead = reason_not_to_lead
        self._clock = clock
        self._plan = ReplacementPlan()
        self._log = get_logger("replacement")

    async def run(self, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Replace pods while this replica leads; call `heartbeat` after each step."""
        await while_leading(self._deletion, self.step, LOOK_SECONDS, heartbeat)

    async def step(self) -> None:
        """Replace at most one pod that waits."""
        try:
            await self._replace_one()
        except (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS) as error:
            self._plan.hold(self._clock() + REFUSED_SECONDS)
            self._log.warning("a waiting pod is not replaced", error=f"{type(error).__name__}: {error}")

    async def _replace_one(self) -> None:
        waiting = await self._waiting()
        # For ten thousand waiting pods this takes over 20 ms: too long for one step of the event loop.
        due = await asyncio.to_thread(self._plan.due, waiting, self._clock())
        reads = MAX_READ
        for pod in due[:MAX_LOOKED_AT]:
            await self._state.yielding.step()
            self._plan.looked_at(pod, self._clock())
            if self._reason_not_to_lead() is not None or not self._may_fit(pod):
                continue
            if reads == 0 or await self._replace(pod):
                return
            reads -= 1

    async def _waiting(self) -> list[WaitingPod]:
        """All waiting pods with a policy that allows their replacement."""
        waiting: list[WaitingPod] = []
        async for keys in self._state.yielding.batches(self._state.ledger.pending_keys()):
            pods = (self._state.pods.get((key[0], key[1])) for key in keys)
            found = [self._replaceable(pod) for pod in pods if pod is not None]
            waiting += [pod.waiting for pod in found if pod is not None]
        return waiting

    def _replaceable(self, pod: SeenPod) -> _Replaceable | None:
        owner, injected = waits_replaceably(pod), pod.injected
        if owner is None or injected is None or injected.injected is None:
            return None
        policy = self._policy_of(injected.injected.partition("@")[0])
        if policy is None or policy.replace_waiting is None:
            return None
        after = policy.replace_waiting.seconds
        return _Replaceable(pod.fact, injected.uid, owner, after, policy.slices_per_gpu)

    def _current(self, waiting: WaitingPod) -> _Replaceable | None:
        """The pod as last watched; None if it may no longer be replaced."""
        pod = self._state.pods.get(waiting.key)
        current = self._replaceable(pod) if pod is not None else None
        return current if current is not None and current.uid == waiting.uid else None

    def _may_fit(self, waiting: WaitingPod) -> bool:
        """Whether there may be room, by what the ledger knows of the pod; the rest has to be read."""
        current = self._current(waiting)
        ask = current.ask(known_constraints(current.fact)) if current is not None else None
        return ask is not None and self._room(ask) is not None

    async def _replace(self, waiting: WaitingPod) -> bool:
        """Delete a pod whose share fits elsewhere now; return whether it was deleted."""
        stored = await read_pod(self._api, waiting.key, waiting.uid)
        current = self._current(waiting)
        if stored is None or current is None or not stored.is_deletable:
            return False
        room = await self._elsewhere(current, stored)
        if room is None or not await self._deletion.delete(waiting.key, stored):
            return False
        self._forget(waiting)
        now = self._clock()
        message = _message(current, room, int(self._plan.waited(waiting, now)), self._names)
        self._plan.replaced(waiting, now)
        await self._deletion.report_deletion(waiting.key, waiting.uid, message)
        return True

    async def _elsewhere(self, pod: _Replaceable, stored: StoredPod) -> Placement | None:
        """Where the pod's share fits now; None if nowhere, or only at its own index.

        At its own index, the scheduler is about to bind it, or has a reason that the ledger does not know.
        """
        ask = pod.ask(stored.constraints)
        if ask is None:
            return None
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            suits = self._state.ledger.suits(ask)
            if any(suits(name) and self._fits_on(name, ask, pod.fact) for name in names):
                return None
        return self._room(ask)

    def _fits_on(self, name: str, ask: PlacementRequest, fact: PodFact) -> bool:
        node, ledger = self._state.nodes.get(name), self._state.ledger
        if node is None or not node.fact.usable:
            return False
        room = ledger.room(name)
        if room is None or any((ledger.free(name, (index,)) or 0) < slices for index, slices in fact.gpus):
            return False
        return room[0] >= ask.share.cpu_milli and room[1] >= ask.share.memory_bytes

    def _room(self, ask: PlacementRequest) -> Placement | None:
        """Where a pod with this request would be placed now; None if it would wait."""
        placement = self._state.place(ask)
        return placement if isinstance(placement, Placement) and placement.node is not None else None

    def _forget(self, waiting: WaitingPod) -> None:
        """Remove a deleted pod from the ledger at once: it would count against the quota of its successor."""
        pod = self._state.pods.get(waiting.key)
        if pod is not None and pod.injected is not None and pod.injected.uid == waiting.uid:
            self._state.remove_pod(waiting.key)


def _message(pod: _Replaceable, room: Placement, waited: int, names: ResourceNames) -> str:
    gpus = ", ".join(str(index) for index in room.indices)
    why = f"waited {waited} s for {needs(pod.fact, names)} while GPU {gpus} of {room.node} has room"
    return f"{why}: deleted, so that {pod.owner.kind} {pod.owner.name} creates another"[:MAX_MESSAGE]
