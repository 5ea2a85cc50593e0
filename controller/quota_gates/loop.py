"""The leader's loop that lets waiting pods go: it removes their gates in order, one after the other.

A pod counts in its quotas before the request to remove its gate is sent. It waits again only if the gate is
certainly still there. A request without an answer is repeated until the outcome is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.policies.watched_policies import WatchedPolicies
from controller.quota_gates.gate_removal import GateRemoval, Outcome, is_rejection
from controller.watch.ledger_store import LedgerStore
from ledger.reservations import COUNTED_SECONDS
from modes.facts import PodFact, PodKey, QuotaWait
from service.log import get_logger

STEP_SECONDS = 0.25
SETTLE_SECONDS = COUNTED_SECONDS
"""Until then, a new leader lets no pod go: a pod that its predecessor admitted or let go may not have
appeared yet, and a request that it sent may still be in progress."""
MAX_AT_ONCE = 100
"""Pods that go in one step."""
REFUSED_SECONDS = 30.0
"""Pause after the API server rejected a request."""
_UNKNOWN = (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS)


class QuotaGateLoop:
    """Removes the gates of waiting pods while this replica leads.

    Args:
        removal: requests to the API server.
        state: the ledger, with the pods that wait.
        leadership: only a leader removes gates.
        policies: the quotas in force.
        reason_not_to_lead: returns why the ledger may be outdated; no pod goes then.
    """

    def __init__(  # noqa: PLR0913 - the last is replaced in tests only
        self,
        removal: GateRemoval,
        state: LedgerStore,
        leadership: Leadership,
        policies: WatchedPolicies,
        *,
        reason_not_to_lead: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._removal = removal
        self._state = state
        self._line = state.ledger.line
        self._line.state = "settling"
        self._leadership = leadership
        self._policies = policies
        self._reason_not_to_lead = reason_not_to_lead
        self._clock = clock
        self._not_before = 0.0
        self._unknown: dict[PodKey, QuotaWait] = {}
        """Pods for which a request had no answer."""
        self._log = get_logger("quota gates")

    async def run(self, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Let pods go while this replica leads; call `heartbeat` after each step."""
        self._not_before = self._clock() + SETTLE_SECONDS
        for key in self._unknown:
            # Of an earlier term: other leaders may have let other pods go since. The watch knows.
            self._state.put_back(key)
        self._unknown.clear()
        try:
            await while_leading(self._leadership, self.step, STEP_SECONDS, heartbeat)
        finally:
            self._line.state = "settling"

    async def step(self) -> None:
        """Let all pods go whose turn it is."""
        if self._clock() < self._not_before or self._reason_not_to_lead() is not None:
            return
        for key, wait in list(self._unknown.items()):
            if await self._remove(key, wait) is None:
                return
        digest, left = self._policies.digest, MAX_AT_ONCE
        if self._line.has_changed(digest):
            for pod in self._line.due(self._policies.quotas_of, digest):
                if pod is None:
                    await self._state.yielding.step()
                    continue
                left -= 1
                if left < 0 or not await self._let_go(pod):
                    return
        self._line.state = "open"

    async def _let_go(self, pod: PodFact) -> bool:
        """Remove a pod's gate; return False if the line must be looked at again."""
        wait = pod.quota_wait
        if wait is None or not self._leadership.leads or self._reason_not_to_lead() is not None:
            return False
        self._state.lift(pod.key)
        outcome = await self._remove(pod.key, wait)
        if outcome == "removed":
            await self._removal.report(pod, wait)
        return outcome in {"removed", "gone"}

    async def _remove(self, key: PodKey, wait: QuotaWait) -> Outcome | None:
        """Remove the gate of a pod that counts already; return None if the outcome is not known."""
        if key not in self._state.lifted:
            self._unknown.pop(key, None)
            return "gone"
        self._unknown[key] = wait
        try:
            outcome = await self._removal.remove(key, wait)
        except _UNKNOWN as error:
            self._not_before = self._clock() + self._pause(key, error)
            return None
        del self._unknown[key]
        if outcome == "still there":
            self._state.put_back(key)
        return outcome

    def _pause(self, key: PodKey, error: Exception) -> float:
        """Log why a gate was not removed, and let the pod wait again if it certainly still has the gate."""
        namespace, name = key
        self._log.warning(
            "a scheduling gate is not removed",
            namespace=namespace,
            pod=name,
            error=f"{type(error).__name__}: {error}",
        )
        if not is_rejection(error):
            return STEP_SECONDS
        del self._unknown[key]
        self._state.put_back(key)
        return REFUSED_SECONDS
